"""The state of a parse that has met an error: what is open, what would be accepted, and where to go on."""

from __future__ import annotations

from typing import Any

from attrs import define
from lark import Tree
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_parser_state import ParserState

from apportion.grammar.lexing import Lexeme
from apportion.grammar.tree import Choice
from apportion.grammar.words import CLAUSES, FILE_ONLY, STATEMENTS

__all__ = ["Stacks"]

_OPENING = frozenset(("LPAR", "LSQB", "LBRACE"))

_CLOSING = frozenset(("RPAR", "RSQB", "RBRACE"))

_NAMED_BLOCKS = {"RULE": "rule", "INVARIANT": "invariant", "CONTRACT": "contract"}

_WITH_BLOCK = frozenset(("RULE", "INVARIANT", "CONTRACT", "PARTITION"))

_PLAIN_BLOCKS = {"MATCH": "`match`", "GIVEN": "`given`", "ACCEPTS": "`accepts`", "REJECTS": "`rejects`"}


@define
class Stacks:
    """The two stacks of an LALR parser, as they were before the unexpected token was read."""

    parser: ParserState[Any]
    states: list[Any]
    values: list[Any]

    @classmethod
    def of(cls, parser: ParserState[Any]) -> Stacks:
        """A copy of the parser's stacks."""
        return cls(parser, list(parser.state_stack), list(parser.value_stack))

    def restore(self) -> None:
        """Put the parser back to where these stacks were taken."""
        self.parser.state_stack[:] = self.states
        self.parser.value_stack[:] = self.values

    @property
    def _table(self) -> Any:
        return self.parser.parse_conf.states

    def accepted(self) -> frozenset[str]:
        """The terminals that could stand here."""
        candidates = [name for name in self._table[self.states[-1]] if name.isupper()]
        return frozenset(name for name in candidates if self._would_accept(name))

    def _would_accept(self, type_: str) -> bool:
        table, end_state = self._table, self.parser.parse_conf.end_state
        stack = self.states[:]
        while True:
            step = table[stack[-1]].get(type_)
            if step is None:
                return False
            action, argument = step
            if action is Shift:
                return True
            size = len(argument.expansion)
            if size:
                del stack[-size:]
            stack.append(table[stack[-1]][argument.origin.name][1])
            if type_ == "$END" and stack[-1] == end_state:
                return True

    def shifts(self, depth: int, type_: str) -> bool:
        """Whether the state at a depth of the stack takes a token as it is."""
        step = self._table[self.states[depth]].get(type_)
        return step is not None and step[0] is Shift

    def innermost_bracket(self) -> tuple[Lexeme | None, str]:
        """The innermost bracket that is open, and whose block it is (see `Place.owner`)."""
        closed = 0
        for depth in range(len(self.values) - 1, -1, -1):
            value = self.values[depth]
            if not isinstance(value, Lexeme):
                continue
            if value.type in _CLOSING:
                closed += 1
            elif value.type in _OPENING:
                if not closed:
                    return value, self.owner(depth)
                closed -= 1
        return None, ""

    def owner(self, depth: int) -> str:
        """What the brace at a depth of the value stack is the block of; "" for a set and for other brackets."""
        brace = self.values[depth]
        if not isinstance(brace, Lexeme) or brace.type != "LBRACE" or depth == 0:
            return ""
        below = self.values[depth - 1]
        if isinstance(below, Lexeme) and below.type in _PLAIN_BLOCKS:
            return _PLAIN_BLOCKS[below.type]
        if isinstance(below, Lexeme) and below.type == "PARTITION":
            return "the partition block"
        if isinstance(below, Lexeme) and below.type == "VBAR" and _ends_in_choice(self.values[depth - 2]):
            return "`match`"
        for at in range(depth - 1, max(depth - 7, 0), -1):
            value = self.values[at - 1]
            if isinstance(value, Lexeme) and value.type in _NAMED_BLOCKS and isinstance(self.values[at], Lexeme):
                return f"{_NAMED_BLOCKS[value.type]} `{self.values[at].text}`"
            if isinstance(value, Lexeme) and value.type in STATEMENTS | CLAUSES:
                return ""
        return ""

    # --- where to go on ---

    def resume_depth(self, lexeme: Lexeme, following: Lexeme | None, starts_line: bool) -> int | None:
        """How much of the stack to keep so that a statement, a clause, a binding or a `}` can be read next.

        None where `lexeme` starts none of these, or none that has a place on this stack.
        """
        if lexeme.type == "OPTION" and following is not None and following.type == "DOT":
            return None
        binding = lexeme.type == "NAME" and starts_line and following is not None and following.type == "EQUAL"
        if not (binding or lexeme.type in FILE_ONLY | STATEMENTS | CLAUSES or lexeme.type in ("RBRACE", "$END")):
            return None
        for depth in range(len(self.states) - 1, -1, -1):
            if binding and not self._is_block(depth):
                continue
            if lexeme.type == "OPTION" and not self._starts_option(depth):
                continue
            if self.shifts(depth, lexeme.type):
                return depth
            if lexeme.type in CLAUSES and depth and self.owner(depth - 1)[:1] not in ("", "`"):
                # A clause that this block does not have is not one of the file either.
                return None
        return None

    def _starts_option(self, depth: int) -> bool:
        """Whether `option` is a statement at a depth of the stack, rather than the start of `option.NAME`."""
        step = self._table[self.states[depth]].get("OPTION")
        return step is not None and step[0] is Shift and "NAME" in self._table[step[1]]

    def _is_block(self, depth: int) -> bool:
        """Whether the state is one between the bindings of a block, or the keys of the partition block."""
        step = self._table[self.states[depth]].get("NAME")
        if step is None or step[0] is not Shift or not self.shifts(depth, "RBRACE"):
            return False
        after = self._table[step[1]].get("EQUAL")
        return after is not None and after[0] is Shift

    def header_depth(self) -> int | None:
        """Where the error is in the header of a block: how much to keep so that its `{` can be read."""
        found = None
        for depth in range(len(self.states) - 1, 0, -1):
            if found is None and self.shifts(depth, "LBRACE"):
                found = depth
            value = self.values[depth - 1]
            if isinstance(value, Lexeme) and value.type in STATEMENTS | CLAUSES | {"LBRACE", "LPAR", "LSQB"}:
                return found if value.type in _WITH_BLOCK else None
        return None

    def cut(self, depth: int) -> list[tuple[Lexeme, str]]:
        """Forget what lies above a depth. Gives the blocks of rules that stay open, innermost first."""
        lost = [
            (self.values[at], self.owner(at))
            for at in range(len(self.values) - 1, depth - 1, -1)
            if isinstance(self.values[at], Lexeme) and self.values[at].type == "LBRACE"
        ]
        del self.states[depth + 1 :]
        del self.values[depth:]
        return [(brace, owner) for brace, owner in lost if owner]


def _ends_in_choice(value: Any) -> bool:
    if isinstance(value, Tree):
        return bool(value.children) and isinstance(value.children[-1], Choice)
    return isinstance(value, Choice)
