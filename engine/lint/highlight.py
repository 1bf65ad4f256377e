"""The TextMate grammar of rules files, made from the same keyword list that the parser has."""

from __future__ import annotations

import json
from typing import Any

from apportion.engine.compile.dtypes import DTYPES
from apportion.engine.facts import KINDS
from apportion.engine.functions import FORMS, FUNCTIONS
from apportion.grammar.parse import keywords

__all__ = ["textmate"]

_WORD_OPERATORS = frozenset({"and", "or", "not", "implies", "in", "is", "if", "else", "for"})
_CONSTANTS = frozenset({"true", "false", "none", "inf", "nan"})


def textmate() -> str:
    """The grammar as JSON."""
    words = keywords()
    plain = sorted(words - _WORD_OPERATORS - _CONSTANTS)
    patterns: list[dict[str, Any]] = [
        {"name": "comment.line.number-sign.apportion", "match": "#.*$"},
        {
            "name": "string.quoted.double.apportion", "begin": '"', "end": '"',
            "patterns": [{"name": "constant.character.escape.apportion", "match": r"\\."}],
        },
        {"name": "constant.numeric.apportion", "match": r"\b\d+(\.\d+)?([eE][+-]?\d+)?\b"},
        {"name": "entity.name.function.op.apportion", "match": r"\b(aten|prims|higher_order|operator|torch|nn|Tensor|"
         r"quantized_decomposed|torchao|dim_order_ops)(\.(\w+|\{[^}]*\}))+"},
        {"match": r"\b(rule|invariant|contract|pattern|ops|let|option|meta|extern)\s+([A-Za-z_]\w*)",
         "captures": {"1": {"name": "keyword.declaration.apportion"}, "2": {"name": "entity.name.type.apportion"}}},
        {"name": "keyword.operator.word.apportion", "match": _any(_WORD_OPERATORS & words)},
        {"name": "constant.language.apportion", "match": _any(_CONSTANTS & words)},
        {"name": "keyword.control.apportion", "match": r"(?<!\.)" + _any(plain)},
        {"name": "support.type.dtype.apportion", "match": _any(DTYPES)},
        {"name": "support.function.apportion", "match": _any([*FUNCTIONS, *FORMS]) + r"(?=\s*\()"},
        {"name": "support.constant.kind.apportion", "match": r"(?<=\bis )" + _any(KINDS)},
        {"name": "variable.other.member.apportion", "match": r"(?<=\.)[A-Za-z_]\w*"},
    ]
    whole = {"name": "Apportion rules", "scopeName": "source.apportion", "fileTypes": ["rules"], "patterns": patterns}
    return json.dumps(whole, indent=2) + "\n"


def _any(words: Any) -> str:
    return r"\b(" + "|".join(sorted(words)) + r")\b"
