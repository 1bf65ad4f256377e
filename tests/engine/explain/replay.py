"""Reasons replayed: the obstacle that a reason names is taken away, and nothing else, and the program is partitioned
again. A reason is true if the node is then claimed, or another reason is named; this goes on until it is claimed.

What is taken away is found in the text of the rules file and in the FX graph, by code that knows nothing of the engine.
"""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from attrs import evolve, field, frozen

from apportion import engine
from apportion.engine.report import NodeReason, Report
from tests.engine.explain.seen import Seen, bindings, seen, value_of

__all__ = ["UNDO", "Judged", "Setup", "checked_values", "identity", "judge", "op_nodes", "reason_of", "without"]


@frozen(eq=False)
class Setup:
    """What is partitioned: a program, the texts of rules files in order, arguments of `partition`."""

    program: Any
    texts: tuple[str, ...]
    arguments: Mapping[str, Any] = field(factory=dict)

    def report(self) -> Report:
        """The report of a run."""
        rules = [engine.parse_rules(text, f"r{index}.rules") for index, text in enumerate(self.texts)]
        return engine.partition(self.program, rules, **self.arguments).report

    @property
    def module(self) -> torch.fx.GraphModule:
        """The program's graph."""
        return self.program if isinstance(self.program, torch.fx.GraphModule) else self.program.graph_module

    def graph_of(self, path: str) -> torch.fx.GraphModule:
        """The graph that a report names by path."""
        found = self.module
        for part in path.split(".") if path else []:
            found = getattr(found, part)
        return found

    def node(self, reason: NodeReason, name: str = "") -> torch.fx.Node:
        """A node of the graph that a reason is about, its own if no other is named."""
        wanted = name or reason.node
        return next(n for n in self.graph_of(reason.graph).graph.nodes if n.name == wanted)


@frozen
class Judged:
    """One program under one list of rules files: how many nodes were left and have a reason; how many are claimed once
    what it names is gone, and how many once what is named then is gone too, and so on; how many printed values were
    compared. `wrong` says what is not so."""

    left: int = 0
    reasons: int = 0
    claimed: int = 0
    later: int = 0
    values: int = 0
    kinds: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def op_nodes(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """The op nodes of a program and its branches, by FX alone."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem:
            yield node
        if node.op == "get_attr" and isinstance(inner := getattr(module, str(node.target), None), torch.fx.GraphModule):
            yield from op_nodes(inner)


def reason_of(report: Report, left: NodeReason) -> NodeReason | None:
    """The reason of the same node in another report."""
    return next((r for r in report.left if (r.node, r.graph) == (left.node, left.graph)), None)


def identity(reason: NodeReason) -> tuple[Any, ...]:
    """What makes two reasons the same one. The values it saw do, where its words are all it has."""
    told = "" if reason.condition else reason.message
    return reason.kind, reason.rule, reason.location, reason.condition, told


def judge(setup: Setup) -> Judged:
    """Every reason of a run, replayed; every value it prints, compared."""
    report = setup.report()
    nodes = list(op_nodes(setup.module))
    wrong: list[str] = []
    if report.nodes_total != len(nodes) or len(report.left) != len(nodes) - report.claimed:
        wrong.append(f"{len(nodes)} nodes, {report.claimed} claimed, {len(report.left)} left")
    if len({(r.graph, r.node) for r in report.left}) != len(report.left):
        wrong.append("a node is left twice")
    known: dict[str, Report] = {}
    steps: list[int] = []
    values = 0
    for left in report.left:
        try:
            taken, seen_there = _until_claimed(setup, left, known)
        except AssertionError as problem:
            wrong.append(f"{left.node}: {problem}")
            continue
        steps.append(taken)
        values += seen_there
    kinds = tuple(sorted({r.kind for r in report.left}))
    has = sum(bool(r.kind and r.message) for r in report.left)
    return Judged(len(report.left), has, steps.count(1), len(steps) - steps.count(1), values, kinds, tuple(wrong))


_MOST = 12
"""So many obstacles are taken away one after the other; no node of these programs has as many."""


def _until_claimed(setup: Setup, left: NodeReason, known: dict[str, Report]) -> tuple[int, int]:
    """Take away what is named until the node is claimed: how many steps that took, how many values were compared."""
    met: set[tuple[Any, ...]] = set()
    values = 0
    for step in range(1, _MOST + 1):
        assert identity(left) not in met, f"still {left.message}"
        met.add(identity(left))
        changed = UNDO[left.kind](setup, left)
        report = _report(changed, known)
        values += checked_values(setup, left, changed)
        after = reason_of(report, left)
        if after is None:
            return step, values
        setup, left = changed, after
    raise AssertionError(f"after {_MOST} steps {left.message}")


def _report(setup: Setup, known: dict[str, Report]) -> Report:
    key = f"{id(setup.program)} {setup.texts!r} {setup.arguments!r}"
    if key not in known:
        known[key] = setup.report()
    return known[key]


# --- printed values ------------------------------------------------------------------------------------------------


def checked_values(setup: Setup, left: NodeReason, undone: Setup) -> int:
    """Compare every value that a reason prints with what the metadata says; how many there were."""
    if not left.observed:
        return 0
    node = setup.node(left)
    ways = list(_names(setup, left, node, undone))
    for path, shown in left.observed:
        found = {value_of(path, names) for names in ways}
        plain = re.sub(r"unknown \([^)]*\)", "unknown", shown)
        assert plain in found, f"{path} is printed as {shown}, and is {' or '.join(sorted(found)) or 'not there'}"
    return len(left.observed)


def _names(setup: Setup, left: NodeReason, node: torch.fx.Node, undone: Setup) -> Iterator[dict[str, Any]]:
    """What the names in a condition may stand for."""
    text = setup.texts[_file_of(left.location)]
    around = _of_partition(setup, left, node, undone) if left.kind in ("trimmed", "rejected", "post-condition") else {}
    if left.kind in ("trimmed", "rejected"):
        yield {"n": Seen(node), **around}
        return
    owner = f"{'invariant' if left.kind == 'invariant' else 'rule'} {left.rule}"
    body = _block(text, text.index(re.search(rf"\b{owner}\b", text)[0]))  # type: ignore[index]
    for names in bindings(_match(body), node):
        at = _offset(text, left.location)
        contract = next((c for c in re.finditer(r"contract (\w+)\((\w+)\)", text)
                         if c.start() < at < c.start() + len(_block(text, c.start()))), None)
        if contract is not None:
            applied = re.search(rf"require {contract[1]}\((\w+)\)", body)
            assert applied is not None
            names[contract[2]] = names[applied[1]]
        yield {**names, **around}


def _of_partition(setup: Setup, left: NodeReason, node: torch.fx.Node, undone: Setup) -> dict[str, Any]:
    """The partition that a node would be in: it is there once the obstacle is not."""
    undone.report()
    tag = node.meta.get("delegation_tag")
    nodes = [n for n in node.graph.nodes if n.meta.get("delegation_tag") == tag and n.op == "call_function"
             and n.target is not operator.getitem] if tag is not None else [node]
    signature = getattr(setup.program, "graph_signature", None)
    constants = {} if signature is None or left.graph else {
        **signature.inputs_to_parameters, **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants}
    inputs: dict[tuple[str, int | None], Seen] = {}
    for one in nodes:
        for value in Seen(one).inputs:
            if value.node not in nodes and value.node.name not in constants and value.node.op != "get_attr":
                inputs.setdefault((value.node.name, value.element), value)
    outputs = {n.name: seen(n) for n in nodes if any(u not in nodes for u in n.users)}
    return {"nodes": [Seen(n) for n in nodes], "inputs": list(inputs.values()), "outputs": list(outputs.values())}


# --- the text of a rules file --------------------------------------------------------------------------------------


def _file_of(location: str | None) -> int:
    assert location is not None
    return int(location.split(".rules:")[0].removeprefix("r"))


def _offset(text: str, location: str | None) -> int:
    assert location is not None
    line, column = map(int, location.rsplit(":", 2)[1:])
    return sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column - 1


def _blank(text: str, start: int, end: int) -> str:
    """The text with spaces there, so that every other place stays where it is."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _block(text: str, start: int) -> str:
    """From `start` to the brace that closes the first one after it."""
    depth = 0
    for index in range(text.index("{", start), len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if depth == 0:
            return text[start : index + 1]
    raise AssertionError("a brace is open")


def _match(body: str) -> str:
    """What stands in the `match` of a rule, without its braces."""
    start = body.index("match")
    inner = body[start + len("match") :].lstrip()
    return _block(inner, 0)[1:-1] if inner.startswith("{") else body[start + len("match") : _clause(body, start)]


def _clause(text: str, start: int) -> int:
    """Where the clause that begins at `start` ends: before the next one, or the brace around it."""
    depth, index, quoted = 0, start + 1, False
    while index < len(text):
        char = text[index]
        quoted ^= char == '"'
        if not quoted:
            if depth == 0 and (char == "}" or re.match(r"\s(require|match|given|emit|trim|reject)\b", text[index:])):
                return index
            depth += (char in "{([") - (char in "})]")
        index += 1
    raise AssertionError("a clause is open")


def without(text: str, location: str) -> str:
    """The file without the clause at a place."""
    start = _offset(text, location)
    assert re.match(r"require|trim|reject|emit|given", text[start:]), text[start : start + 40]
    return _blank(text, start, _clause(text, start))


def _edited(setup: Setup, index: int, text: str) -> Setup:
    assert text != setup.texts[index]
    return evolve(setup, texts=(*setup.texts[:index], text, *setup.texts[index + 1 :]))


# --- taking an obstacle away ---------------------------------------------------------------------------------------


def _condition(setup: Setup, left: NodeReason) -> Setup:
    index = _file_of(left.location)
    assert left.location is not None
    return _edited(setup, index, without(setup.texts[index], left.location))


def _no_rule(setup: Setup, left: NodeReason) -> Setup:
    return _edited(setup, 0, _with_rule(setup.texts[0], left.op))


def _with_rule(text: str, op: str) -> str:
    """The file with a rule of one line that takes an op."""
    return f"{text}\nrule replay_{text.count('rule replay_')} {{ match y = {op}() }}\n"


def _inner_node(setup: Setup, left: NodeReason) -> Setup:
    index = _file_of(left.location)
    text = setup.texts[index]
    assert left.op in _block(text, _offset(text, left.location)), "the rule names the op"
    return _edited(setup, index, _with_rule(text, left.op))


def _limit(setup: Setup, left: NodeReason) -> Setup:
    index = _file_of(left.location)
    key = re.search(r"\b(min_nodes|max_\w+) is (\d+)", left.message)
    assert key is not None, left.message
    return _edited(setup, index, re.sub(rf"\b{key[1]} = {key[2]}\b", "", setup.texts[index]))


def _lost(setup: Setup, left: NodeReason) -> Setup:
    winner = re.search(r"lost to (\w+) \((r\d\.rules:\d+:\d+)\), which takes `(\w+)`", left.message)
    if winner is not None:
        index = _file_of(winner[2])
        text = setup.texts[index]
        start = text.rindex("rule", 0, _offset(text, winner[2]))
        assert setup.node(left, winner[3]) is not None and winner[1] in _block(text, start)
        return _edited(setup, index, _blank(text, start, start + len(_block(text, start))))
    other = re.search(r"lost to (?:(\w+), which has precedence and took|what keeps) `(\w+)`", left.message)
    assert other is not None and setup.node(left, other[2]) is not None, left.message
    if other[1] is None:
        assert "excluded by user" in left.message
        return _excluded(setup, left)
    owner = f'backend "{other[1]}" language 1\n'
    return evolve(setup, texts=tuple(owner if text.startswith(owner) else text for text in setup.texts))


def _pattern(setup: Setup, left: NodeReason) -> Setup:
    user = re.search(r"wants `(\w+)(?:\[\d+\])?` for itself, but `(\w+)` uses it too", left.message)
    if user is not None:
        return _with_its_own_copy(setup, left, user[1], user[2])
    returned = re.search(r"wants `(\w+)(?:\[\d+\])?` for itself, but it is an output of the graph", left.message)
    if returned is not None:
        return _with_its_own_copy(setup, left, returned[1], "output")
    found = re.search(r"did not fit: `([^`]+)`(?: or `[^`]+`)* was expected(?: as \w+)?, and (.*)", left.message)
    assert found is not None, left.message
    stands = re.fullmatch(r"`([\w.\[\]]+)` \(([^)]*)\) stands there", found[2])
    if stands is not None:
        there = setup.node(left, stands[1].split("[")[0])
        assert stands[2] in (Seen(there).op, "an input"), left.message
    index = _file_of(left.location)
    text = setup.texts[index]
    start = _offset(text, left.location)
    block = _block(text, start)
    term = re.search(rf"(?<![\w.]){re.escape(found[1])}(?![\w.])", block)
    assert term is not None, left.message
    end = term.end()
    if block[end : end + 1] == "(":
        end += len(_round(block[end:]))
    named = re.search(r"(\w+)\s*=\s*$", block[: term.start()])
    begin = term.start() if named is None else named.start()
    line = "_" if named is None else " " * len(named[0])
    return _edited(setup, index, text[: start + begin] + line.ljust(end - begin) + text[start + end :])


def _round(text: str) -> str:
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[: index + 1]
    raise AssertionError("a bracket is open")


def _with_its_own_copy(setup: Setup, left: NodeReason, name: str, user: str) -> Setup:
    """A copy of the program in which the user that is in the way has the value from a node of its own."""
    assert not left.graph
    changed = evolve(setup, program=copy.deepcopy(setup.program))
    node, other = changed.node(left, name), changed.node(left, user)
    getitem = next((n for n in node.users if n.target is operator.getitem and n in other.all_input_nodes), None)
    assert node in other.all_input_nodes or getitem is not None, f"{user} uses {name}"
    with node.graph.inserting_after(node):
        twin = node.graph.node_copy(node)
        twin.meta = dict(node.meta)
    if isinstance(changed.program, torch.export.ExportedProgram) and user == "output":
        for spec in changed.program.graph_signature.output_specs:
            if spec.arg.name == name:
                spec.arg.name = twin.name
    other.replace_input_with(node, twin)
    return changed


def _given(setup: Setup, left: NodeReason) -> Setup:
    index = _file_of(left.location)
    text = setup.texts[index]
    start = text.index("given", _offset(text, left.location))
    return _edited(setup, index, _blank(text, start, _clause(text, start)))


def _interleaved(setup: Setup, left: NodeReason) -> Setup:
    """The way around is cut where it leaves the piece: what it leads to first has a node of its own as input."""
    found = re.search(r"as one piece (.*) would wait for itself, by way of (.+)", left.message)
    assert found is not None, left.message
    inside, outside = (re.findall(r"`(\w+)`", part) for part in found.groups())
    assert left.node in inside and outside
    first, last = setup.node(left, outside[0]), setup.node(left, outside[-1])
    leaves = next(one.name for one in first.all_input_nodes if one.name in inside)
    assert any(one.name in inside for one in last.users), "the way comes back"
    return _with_its_own_copy(setup, left, leaves, first.name)


def _mutation(setup: Setup, left: NodeReason) -> Setup:
    """The backend may own what is written."""
    found = re.search(r"`(\w+)` writes `(\w+)`, which its partition does not own", left.message)
    assert found is not None and setup.node(left, found[1]) is not None and setup.node(left, found[2]) is not None
    return _edited(setup, 0, setup.texts[0] + "\npartition { mutable_buffers = true }\n")


def _branches(setup: Setup, left: NodeReason) -> Setup:
    found = re.search(r"`(\w+)` \(([\w.]+)\) in ([\w.]+) is left", left.message)
    assert found is not None, left.message
    inner = next(r for r in setup.report().left if (r.graph, r.node, r.op) == (found[3], found[1], found[2]))
    for _ in range(_MOST):
        setup = UNDO[inner.kind](setup, inner)
        after = reason_of(setup.report(), inner)
        if after is None:
            return setup
        inner = after
    raise AssertionError(f"after {_MOST} steps {inner.message}")


def _excluded(setup: Setup, left: NodeReason) -> Setup:
    return evolve(setup, arguments={k: v for k, v in setup.arguments.items() if k not in ("exclude", "only")})


def _unused(setup: Setup, left: NodeReason) -> Setup:
    """Somebody uses it."""
    changed = evolve(setup, program=copy.deepcopy(setup.program))
    node = changed.node(left)
    output = next(n for n in node.graph.nodes if n.op == "output")
    output.args = ((*output.args[0], node),)
    return changed


def _other_partitioner(setup: Setup, left: NodeReason) -> Setup:
    changed = evolve(setup, program=copy.deepcopy(setup.program))
    node = changed.node(left)
    assert f"`{node.meta['delegation_tag']}`" in left.message
    for one in node.graph.nodes:
        one.meta.pop("delegation_tag", None)
    return changed


UNDO: Mapping[str, Callable[[Setup, NodeReason], Setup]] = {
    "no rule": _no_rule,
    "inner node": _inner_node,
    "requirement": _condition,
    "invariant": _condition,
    "post-condition": _condition,
    "trimmed": _condition,
    "rejected": _condition,
    "emit": _condition,
    "limit": _limit,
    "pattern": _pattern,
    "given": _given,
    "lost": _lost,
    "interleaved": _interleaved,
    "mutation": _mutation,
    "branches": _branches,
    "excluded by user": _excluded,
    "unused": _unused,
    "other partitioner": _other_partitioner,
}
"""What each kind of reason names, taken away. `lowered` and `gave up` name nothing that could be."""
