"""The rules of the measurements: the shipped ones, written out so that each rule names one op or one pattern.

`xnnpack.rules` says in five patterns over sets of ops what others write one by one. Here its patterns (and one of
`std/linear`) are taken apart again into 30 of several nodes, beside 20 rules for single ops, with the same
requirements and invariants: 50 rules, as a hand-written backend would have them.
"""

from __future__ import annotations

from importlib import resources

from apportion.grammar import tree
from apportion.grammar.parse import parse

__all__ = ["ABSENT", "PRODUCTS", "QUANTIZED", "SINGLE", "absent_rules", "rules_text"]

SINGLE = {
    "float_only()": ("abs.default", "exp.default", "gelu.default", "neg.default", "sigmoid.default", "tanh.default",
                     "bmm.default", "_softmax.default"),
    "quantizable()": ("add.Tensor", "sub.Tensor", "mul.Tensor", "relu.default", "hardtanh.default", "view.default",
                      "cat.default"),
}  # fmt: skip
"""Ops of `float_op` and `plain_op`, each a rule."""

QUANTIZED = (
    "add.Tensor", "sub.Tensor", "mul.Tensor", "slice.Tensor", "relu.default", "hardtanh.default", "clamp.default",
    "max_pool2d.default", "mean.dim", "view.default", "permute.default", "unsqueeze.default", "cat.default",
)  # fmt: skip
"""Ops of `quantized_op`, each a pattern."""

PRODUCTS = {
    "convolution": "aten.convolution.default(x, w, b)",
    "linear": "aten.linear.default(x, w, b)",
    "addmm": "aten.addmm.default(b, x, w, beta: 1, alpha: 1)",
    "mm": "aten.mm.default(x, w)",
}
"""The alternatives of `product`, each in patterns of its own."""

_ACTIVATIONS = ("relu", "hardtanh")
_KEPT = ("batch_norm", "max_dim", "prelu", "quantize", "dequantize")

ABSENT = 1_000
"""So many more rules, for ops that occur in no graph, must cost next to nothing."""


def rules_text(more: int = 0) -> str:
    """The file with 50 rules; with `more` of them for ops that no graph here has."""
    text = resources.files("apportion.rules").joinpath("xnnpack.rules").read_text(encoding="utf-8")
    file = parse(text, "xnnpack.rules").file
    if file is None:
        raise ValueError("xnnpack.rules has errors")
    rules = {s.name: _bare(s) for s in file.statements if isinstance(s, tree.Rule)}
    rest = [s.span.text for s in file.statements if not isinstance(s, tree.Rule)]
    named = [f"pattern only_{name}(x, w, b?) = {call}" for name, call in PRODUCTS.items()]
    return "\n\n".join([*rest, 'use "std/linear"', *named, *_written_out(rules), *absent_rules(more)])


def absent_rules(count: int) -> list[str]:
    """Rules of two nodes around ops that are in none of the graphs."""
    ops = ("acos", "asin", "atan", "cosh", "digamma", "lgamma", "frac", "erfinv", "i0", "logit")
    return [
        f"rule absent_{number} {{ match y = aten.{ops[number % 10]}.default(aten.{ops[number // 10 % 10]}.default(x))"
        f" require x.rank == {number} }}"
        for number in range(count)
    ]


def _bare(rule: tree.Rule) -> str:
    """A rule's text without its name and examples."""
    text = rule.span.text
    for clause in rule.body:
        if isinstance(clause, tree.Example):
            text = text.replace(clause.span.text, "", 1)
    return text[text.index("{"):]


def _written_out(rules: dict[str, str]) -> list[str]:
    found = [f"rule {name} {rules[name]}" for name in _KEPT]
    for name, call in (("float_op", "float_only()"), ("plain_op", "quantizable()")):
        found += [f"rule single_{_word(op)} " + rules[name].replace(call, f"aten.{op}()") for op in SINGLE[call]]
    per_tensor = "quantized_decomposed.{}_per_tensor.default("
    quantized = rules["quantized_op"].replace("dequantize(", per_tensor.format("dequantize"))
    quantized = quantized.replace("q = quantize(", "q = " + per_tensor.format("quantize"))
    for op in QUANTIZED:
        body = quantized if op == "add.Tensor" else _without_relu(quantized)
        found.append(f"rule quantized_{_word(op)} " + body.replace("quantizable(", f"aten.{op}("))
    for activation in _ACTIVATIONS:
        fused = f"aten.{activation}.default(y)?"
        for name in PRODUCTS:
            body = rules["float_convolution" if name == "convolution" else "float_matmul"]
            body = body.replace("aten.convolution.default(x", "only_convolution(x").replace("matmul(", f"only_{name}(")
            found.append(f"rule {name}_{activation} " + body.replace("fusable(y)?", fused))
    for kind in ("static_product", "dynamic_product"):
        for name in PRODUCTS:
            body = rules[kind] if name == "convolution" else _without(rules[kind], "y.transposed")
            found.append(f"rule {kind}_{name} " + body.replace("product(", f"only_{name}("))
    body = rules["float_matmul"].replace("matmul(", "linear(").replace("fusable(y)?", "aten.relu.default(y)?")
    return [*found, "rule linear_of_transposed " + body]


def _without(body: str, *words: str) -> str:
    return "\n".join(line for line in body.splitlines() if not any(word in line for word in words))


def _without_relu(body: str) -> str:
    body = _without(body, "present(z)", "z = ")
    return body.replace("quantize_per_tensor.default(z", "quantize_per_tensor.default(y")


def _word(op: str) -> str:
    return op.replace(".", "_").strip("_")
