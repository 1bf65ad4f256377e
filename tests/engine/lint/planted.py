"""Rule sets with planted findings, drawn by a seed from every statement, kind, attribute and function of the language.

A `Row` is one construct with three requirements about `y = OP(x)`: `one`, another that some call fulfils together with
it (`meets`), and one that no call does (`apart`). Out of these come overlaps, shadowed rules, contradictions, dead
alternatives, and rules that only look as if they overlapped.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from attrs import define, field, frozen


@frozen
class Row:
    """`uses` are the constructs in it; with `open` an overlap may be undecided: no graph shows it before partitions are
    made."""

    uses: frozenset[str]
    one: str
    meets: str
    apart: str
    match: str = "y = OP(x)"
    open: bool = False


def row(uses: str, one: str, meets: str, apart: str, **more: object) -> Row:
    return Row(frozenset(uses.split()), one, meets, apart, **more)  # type: ignore[arg-type]


SUB = "y = aten.sub.Tensor(x, z)"
CAT = "y = aten.cat.default(xs)"
CONV = "y = aten.convolution.default(x, w, b)"
MEAN = "y = aten.mean.dim(x)"
MAX = "y = aten.max.dim(x)"
OPTIONAL = "y = OP(x)  z = aten.relu6.default(y)?"
THROUGH = "y = OP(through{aten.view.default}(x))"
DEQUANTIZE = ("q = quantized_decomposed.quantize_per_tensor.default(x)  "
              "y = quantized_decomposed.dequantize_per_tensor.default(q)")

ROWS = (
    # attributes of values
    row(".dtype in", "x.dtype in {float32, float16}", "x.dtype != float16", "x.dtype == int8"),
    row(".rank range", "x.rank == 3", "x.rank in 2..4", "x.rank > 4"),
    row(".shape index %", "x.shape[0] % 4 == 2", "x.shape[0] % 2 == 0", "x.shape[0] % 2 == 1"),
    row(".shape index and", "x.rank == 2 and x.shape[-1] == 8", "x.shape[1] >= 8", "x.rank == 2 and x.shape[1] < 8"),
    row(".numel", "x.rank == 2 and x.numel <= 64", "x.numel >= 16", "x.rank <= 3 and x.numel >= 65"),
    row(".nbytes", "x.dtype == float32 and x.rank == 1 and x.nbytes <= 64", "x.shape[0] == 4",
        "x.rank == 1 and x.nbytes > 64"),
    row(".strides", "x.strides == [1]", "x.rank == 1", "not (x.strides == [1])"),
    row(".storage_offset", "x.storage_offset == 0", "x.rank == 1", "x.storage_offset != 0"),
    row(".dim_order", "x.dim_order == [0, 1]", "x.rank == 2", "x.dim_order != [0, 1]"),
    row(".device str", 'x.device == "cpu"', 'x.device != "meta"', 'x.device == "meta"'),
    # attributes of nodes
    row(".op", "x.op == aten.neg.default", "x.op != aten.abs.default", "x.op == aten.abs.default"),
    row(".op.name", 'x.op in {aten.neg.default, aten.view.default} and x.op.name == "aten.neg.default"',
        "x.rank == 2", "x.op == aten.view.default"),
    row(".op.is_view", "x.op in {aten.neg.default, aten.view.default} and x.op.is_view", "x.rank == 2",
        "x.op == aten.neg.default"),
    row(".op.namespace", 'x.op in {aten.neg.default} and x.op.namespace == "aten"', "x.rank == 2",
        "x.op is none"),
    row(".op.tags", 'x.op in {aten.neg.default, aten.view.default} and not ("pointwise" in x.op.tags)', "x.rank == 2",
        "x.op == aten.neg.default"),
    row(".name", 'y.name != "first"', 'y.name != "second"', 'y.name == "first"'),
    row(".inputs len", "len(y.inputs) == 2", "x.rank == 2", "len(y.inputs) > 2", match=CAT.replace("xs", "[x, *xs]")),
    row(".outputs", "all(o.dtype == float32 for o in y.outputs)", "x.rank == 2", "x.dtype == float16"),
    row(".users", "len(y.users) <= 3", "len(y.users) >= 1", "len(y.users) >= 4"),
    row(".module", 'y.module == "body"', 'y.module != "head"', 'y.module == "head"'),
    row(".source", 'y.source != "body"', 'y.source != "head"', 'y.source == "body"'),
    row(".meta meta", "y.meta.lane == 1", "y.meta.lane <= 3", "y.meta.lane == 2"),
    row(".args", "y.args.dtype is none", "x.rank == 2", "y.args.dtype == float16", match=MEAN),
    row(".subgraphs", "len(y.subgraphs) == 2 and len(y.users) <= 2", "len(y.users) >= 1",
        "len(y.subgraphs) == 2 and len(y.users) >= 3", match="y = higher_order.cond()"),
    row("argument", "y.keepdim", "x.rank == 4", "not y.keepdim", match=MEAN),
    # attributes of dtypes
    row(".itemsize", "x.dtype.itemsize == 2", "x.dtype == float16", "x.dtype.itemsize == 4"),
    row(".is_floating_point", "x.dtype.is_floating_point", "x.dtype == float32", "not x.dtype.is_floating_point"),
    row(".is_signed", "x.dtype.is_signed", "x.dtype != float32", "x.dtype == uint8"),
    # kinds
    row("tensor literal int", "z is tensor", "x.rank == 2", "z is int", match=SUB),
    row("literal float", "z is literal", "z is float", "z is tensor", match=SUB),
    row("node user_input", "x is node", "x.rank == 2", "x is user_input"),
    row("none", "b is none", "x.rank == 4", "b is not none", match=CONV),
    row("bool", "y.keepdim is bool and y.keepdim", "x.rank == 3", "y.keepdim is bool and not y.keepdim", match=MEAN),
    row("str", 'y.approximate is str and y.approximate == "tanh"', "x.rank == 2", 'y.approximate == "none"',
        match="y = aten.gelu.default(x)"),
    row("constant", "w is constant", "x.rank == 4", "w is not constant", match=CONV),
    row("parameter buffer", "w is parameter", "x.rank == 4", "w is buffer", match=CONV),
    row("mutable_buffer buffer", "x is mutable_buffer", "x is buffer", "x is node"),
    row("graph_input", "x is graph_input", "x is user_input", "x is node"),
    row("frozen", "w is frozen", "w is constant", "w is user_input", match=CONV),
    row("returned", "y is not returned", "x.rank == 2", "y is returned"),
    row("static symbolic", "x is static", "x.rank == 2", "x is symbolic"),
    row("unbacked", "x is not unbacked", "x.rank == 2", "x is unbacked"),
    row("contiguous", "x is contiguous", "x.rank == 3", "x is not contiguous"),
    row("channels_last", "x is channels_last", "x.rank == 4", "x.rank == 2"),
    row("claimed .nodes", "all(n is claimed for g in y.subgraphs for n in g.nodes)", "len(y.subgraphs) == 2",
        "not all(n is claimed for g in y.subgraphs for n in g.nodes)", match="y = higher_order.cond()"),
    row(".partitions", "all(len(g.partitions) == 1 for g in y.subgraphs)", "len(y.subgraphs) == 2",
        "not all(len(g.partitions) == 1 for g in y.subgraphs)", match="y = higher_order.cond()", open=True),
    # operators and forms
    row("implies", "x.rank == 2 implies x.shape[0] == 4", "x.shape[0] == 4", "x.rank == 2 and x.shape[0] != 4"),
    row("or not", "not (x.rank == 2 or x.rank == 3)", "x.rank >= 4", "x.rank == 3"),
    row("chain", "2 <= x.rank <= 3", "x.rank == 3", "x.rank == 1"),
    row("+ -", "x.shape[0] + x.shape[1] == 8", "x.shape[0] - x.shape[1] == 2", "x.shape[0] - x.shape[1] == 9"),
    row("* /", "x.shape[0] * 3 == 12", "x.shape[0] / 2 == 2", "x.shape[0] / 4 == 2"),
    row("//", "x.shape[0] // 4 == 2", "x.shape[0] >= 8", "x.shape[0] <= 7"),
    row("list+", "x.rank == 2 and x.shape + [1] == [2, 3, 1]", "x.shape[0] == 2", "x.shape[0] == 3"),
    row("if", "(x.shape[0] if x.rank == 2 else 7) == 4", "x.rank == 2", "x.rank == 3"),
    row("slice", "x.rank == 3 and all(d == 2 for d in x.shape[1:])", "x.shape[0] == 4",
        "x.rank == 3 and x.shape[2] == 3"),
    row("inf", "x.shape[0] < inf and x.shape[0] == 4", "x.rank == 2", "x.shape[0] == 5"),
    row("nan", "x.shape[0] != nan and x.shape[0] == 4", "x.rank == 2", "x.shape[0] == 5"),
    # functions
    row("all zip", "all(a == b for a, b in zip(x.shape, [2, 3]))", "x.rank == 2", "x.rank == 2 and x.shape[1] == 4"),
    row("any", "x.rank == 2 and any(d == 1 for d in x.shape)", "x.shape[0] == 1", "all(d > 1 for d in x.shape)"),
    row("count", "x.rank == 2 and count(d == 1 for d in x.shape) == 2", "x.shape[0] == 1", "x.shape[0] == 2"),
    row("sum", "x.rank == 2 and sum(x.shape) == 6", "x.shape[0] == 2", "x.shape[0] == 7"),
    row("prod", "x.rank == 2 and prod(x.shape) <= 6", "x.shape[0] == 2", "x.shape[0] == 7 and x.shape[1] == 2"),
    row("min", "x.rank == 2 and min(x.shape) == 3", "x.shape[0] == 3", "x.shape[0] == 2"),
    row("max", "x.rank == 2 and max(x.shape) == 3", "x.shape[0] == 3", "x.shape[0] == 4"),
    row("abs", "abs(x.shape[0] - 4) == 1", "x.shape[0] == 3", "x.shape[0] == 4"),
    row("round", "round(x.shape[0]) == 4", "x.shape[0] == 4", "x.shape[0] == 5"),
    row("sorted", "sorted(y.dim) == [2, 3]", "x.rank == 4", "y.dim == [1]", match=MEAN),
    row("for for", "all(i + j < 8 for i in x.shape for j in [0, 1])", "x.rank == 2", "x.rank == 2 and x.shape[0] == 9"),
    row("range for-if", "x.rank == 3 and all(x.shape[i] == 2 for i in range(3) if i != 1)", "x.shape[1] == 5",
        "x.shape[2] == 5"),
    row("distinct", "len(distinct(x.shape)) == 1", "x.rank == 1", "len(distinct(x.shape)) != 1"),
    row("log2", "x.shape[0] == 4 and log2(x.shape[0]) == 2", "x.rank == 2", "x.shape[0] == 8"),
    row("ceil_div", "ceil_div(x.shape[0], 4) == 2", "x.shape[0] == 5", "x.shape[0] == 4"),
    row("align_up", "align_up(x.shape[0], 8) == 16", "x.shape[0] == 9", "x.shape[0] == 8"),
    row("present", "present(z) and x.rank == 2", "x.shape[0] == 4", "present(z) and x.rank == 3", match=OPTIONAL),
    row("walked", "walked(x) and y.rank == 2", "x.rank == 1", "not walked(x) and y.rank == 3", match=THROUGH),
    row("broadcastable", "broadcastable(x, z)", "x.rank == 2", "not broadcastable(x, z)", match=SUB),
    row("depends_on", "not depends_on(x, z)", "x.rank == 2", "depends_on(x, z)", match=SUB),
    row("same_qparams", "same_qparams(y, q)", "x.rank == 2", "not same_qparams(y, q)", match=DEQUANTIZE),
    row("min_value", "min_value(w) >= 0", "x.rank == 4", "not (min_value(w) >= 0)", match=CONV),
    row("max_value", "max_value(w) <= 0", "x.rank == 4", "not (max_value(w) <= 0)", match=CONV),
    row("all_zero", "all_zero(b)", "x.rank == 4", "not all_zero(b)", match=CONV),
    row("flops", "flops(y) <= 100", "x.rank == 2", "flops(y) > 100"),
    row("possible", "possible(x.shape[0] == 4)", "x.rank == 2", "x is static and x.shape[0] == 5"),
    # patterns
    row("term", "x.rank == 2", "x.shape[0] == 4", "x.rank == 3", match="y = OP(aten.permute.default(x, [1, 0]))"),
    row("alternatives", "x.rank == 2", "x.shape[0] == 4", "x.rank == 3",
        match="y = (OP(x) | aten.square.default(x))"),
    row("literals", "x.rank == 2", "x.shape[0] == 4", "x.rank == 3", match="y = aten.mean.dim(x, [-1], true)"),
    row("star", "len(xs) == 2 and xs[0].rank == 2", "xs[0].shape[0] == 4", "xs[0].rank == 3", match=CAT),
    row("element", "y[0].dtype == float32 and y.dim == 0", "x.rank == 2", "y.dim == 1", match=MAX),
    row("commutative", "a.rank == 2", "a.shape[0] == 4", "a.rank == 3",
        match="y = aten.mul.Tensor(a, aten.sin.default(a))"),
)

UNARY = tuple(f"aten.{name}.default" for name in (
    "relu", "exp", "tanh", "sigmoid", "floor", "ceil", "sqrt", "rsqrt", "cos", "erf", "log", "sign", "trunc", "sinh",
    "cosh", "atan", "asin", "acos", "expm1", "log1p"))

WRAPS = ("require", "let", "let-function", "local-let", "contract", "contract-of-contract")
"""Where a requirement can stand."""

KINDS = ("overlap", "shadow", "contradiction", "dead", "near-miss", "ordered")

STATEMENTS = frozenset(
    "backend use declare option meta ops let pattern contract extern disjoint rule invariant partition preserve emit "
    "match given when require take mark accepts rejects over shared".split()
)


@frozen
class Planted:
    """What was planted: the codes that show it, one of the rules that they name, and the row that it is made of."""

    kind: str
    codes: frozenset[str]
    rules: tuple[str, ...]
    row: Row


@define
class RuleSet:
    """A file (with a library), what is planted in it, and the constructs that it uses."""

    text: str = ""
    library: str = ""
    planted: list[Planted] = field(factory=list)
    drawn: set[str] = field(factory=set)


CODES = {
    "overlap": frozenset({"A101", "A102", "A103", "A104", "A110"}),
    "shadow": frozenset({"A104", "A102"}),
    "contradiction": frozenset({"A201"}),
    "dead": frozenset({"A206"}),
    "near-miss": frozenset(),
    "ordered": frozenset({"A103", "A102", "A104"}),
}


class _Writer:
    """Writes one set. Each row has an op of its own, so that rules of different rows never meet."""

    def __init__(self, seed: int, clean: bool) -> None:
        self.draw = random.Random(seed)
        self.clean = clean
        self.head: list[str] = []
        self.rules: list[str] = []
        self.found = RuleSet()
        self.count = 0

    def context(self, rows: list[Row]) -> None:
        """What the rows need to be declared."""
        if any("meta" in row.uses for row in rows):
            self.head.append('meta lane: int = "custom.lane"')
        if any(row.match == DEQUANTIZE for row in rows):
            self.head.insert(0, 'use "std/quant"')
            self.found.drawn.add("use")

    def finished(self) -> RuleSet:
        self.found.drawn |= {"backend", "rule", "match", "require"}
        body = [*self.head, *self.rules]
        self.found.text = "\n".join(['backend "Planted" language 1', *body]) + "\n"
        return self.found

    def name(self, word: str) -> str:
        self.count += 1
        return f"{word}_{self.count}"

    def required(self, names: str, text: str) -> str:
        """A requirement, somewhere."""
        wrap = self.draw.choice(WRAPS)
        if wrap == "require":
            return f"require {text}"
        if wrap == "local-let":
            name = self.name("known")
            self.found.drawn.add("let")
            return f"let {name} = {text}  require {name}"
        if wrap in ("let", "let-function"):
            name = self.name("holds")
            self.found.drawn.add("let")
            self.head.append(f"let {name}({names}) = {text}")
            return f"require {name}({names})"
        name = self.name("asks")
        self.found.drawn.add("contract")
        self.head.append(f"contract {name}({names}) {{ require {text} because \"so says {name}\" }}")
        if wrap == "contract-of-contract":
            outer = self.name("asks")
            self.head.append(f"contract {outer}({names}) {{ require {name}({names}) }}")
            name = outer
        return f"require {name}({names})"

    def rule(self, match: str, *requirements: str, over: str = "") -> str:
        name = self.name("rule")
        variables = ", ".join(dict.fromkeys(re.findall(r"(?<![.\w])(?:xs|[abqwxyz])(?![.\w])", match)))
        body = "  ".join(self.required(variables, text) for text in requirements)
        ordered = f" over {over}" if over else ""
        self.rules.append(f"rule {name}{ordered} {{ match {{ {match} }}  {body} }}")
        return name

    def plant(self, row: Row, op: str) -> None:
        match = row.match.replace("OP", self.op_name(op)) if "OP" in row.match else row.match
        kind = self.draw.choice(["near-miss"] if self.clean else list(KINDS))
        self.plant_as(kind, row, match)

    def plant_as(self, kind: str, row: Row, match: str) -> None:
        self.found.drawn |= row.uses | {kind}
        rules = getattr(self, "_" + kind.replace("-", "_"))(row, match)
        self.found.planted.append(Planted(kind, CODES[kind], rules, row))

    def op_name(self, op: str) -> str:
        if self.draw.random() < 0.3:
            name = self.name("group")
            self.found.drawn.add("ops")
            self.head.append(f"ops {name} = {{{op}}}")
            return name
        return op

    def _overlap(self, row: Row, match: str) -> tuple[str, ...]:
        return self.rule(match, row.one), self.rule(match, row.meets)

    def _ordered(self, row: Row, match: str) -> tuple[str, ...]:
        broad = self.rule(match, row.one)
        self.found.drawn.add("over")
        return broad, self.rule(match, row.one, row.meets, over=broad)

    def _shadow(self, row: Row, match: str) -> tuple[str, ...]:
        first = self.rule(match, row.one)
        return (self.rule(match, row.one, row.meets), first)

    def _contradiction(self, row: Row, match: str) -> tuple[str, ...]:
        return (self.rule(match, row.one, row.apart),)

    def _dead(self, row: Row, match: str) -> tuple[str, ...]:
        name = self.name("rule")
        self.rules.append(f"rule {name} {{ match {{ {match} }}  require {row.one}  "
                          f"require ({row.apart}) or ({row.meets}) }}")
        return (name,)

    def _near_miss(self, row: Row, match: str) -> tuple[str, ...]:
        pair = [row.one, row.apart]
        self.draw.shuffle(pair)
        return self.rule(match, pair[0]), self.rule(match, pair[1])

    def statements(self) -> None:
        """The other statements, each in a small part of its own that has no finding."""
        parts = ("option", "declare", "extern", "invariant", "pattern", "given", "marks", "use", "preserve",
                 "partition", "emit", "examples")
        for part in self.draw.sample(parts, 6):
            getattr(self, "_say_" + part)()

    def say(self, drawn: str, *lines: str) -> None:
        self.found.drawn |= set(drawn.split())
        self.rules.extend(lines)

    def _say_option(self) -> None:
        self.head.append('option wide: bool = true "also wide ones"')
        self.say("option when", "rule options { match y = aten.hardswish.default(x)  when option.wide }")

    def _say_declare(self) -> None:
        self.head.append('declare "acme::fused(Tensor x, int k=2) -> Tensor"')
        self.say("declare", "rule declared { match y = acme.fused.default(x, k: 3) }",
                 "rule declared_too { match y = acme.fused.default(x, k: 4) }")

    def _say_extern(self) -> None:
        self.head += ["extern is_small(n)", "extern is_large(n)", "disjoint is_small, is_large"]
        self.say("extern disjoint", "rule small { match y = aten.hardtanh.default(x)  require is_small(x) }",
                 "rule large { match y = aten.hardtanh.default(x)  require is_large(x) }")

    def _say_invariant(self) -> None:
        self.say("invariant", "invariant known { match y = aten.mish.default(x)  require x.rank <= 4 }",
                 "rule mish { match y = aten.mish.default(x)  require x.dtype == float32 }",
                 "rule mish_too { match y = aten.mish.default(x)  require x.dtype == float16 }")

    def _say_pattern(self) -> None:
        self.head.append("pattern twice(x) = aten.silu.default(x) | aten.elu.default(x)")
        self.say("pattern", "rule patterns { match y = twice(x) }")

    def _say_given(self) -> None:
        self.say("given", "rule givens { match y = aten.selu.default(x)  given x = aten.neg.default(w) }")

    def _say_marks(self) -> None:
        self.say("mark take shared", "rule marks { match { a = shared aten.frac.default(x)  y = aten.mm.default(a, w) }"
                 '  require w is constant  take w  mark a, y as "MARK" }')

    def _say_use(self) -> None:
        self.head.insert(0, 'use "shared.rules"')
        self.found.library = "let at_most = 4\nops library_ops = {aten.softplus.default}\n"
        self.say("use", "rule used { match y = library_ops(x)  require x.rank <= at_most }")

    def _say_preserve(self) -> None:
        self.say("preserve", "preserve {aten.hardsigmoid.default}")

    def _say_partition(self) -> None:
        self.say("partition", 'partition { merge = "all"  min_nodes = 1  trim n.op == aten.sin.default }')

    def _say_emit(self) -> None:
        self.say("emit", 'emit level = "auto"', "rule emits { match y = aten.celu.default(x)  emit level = \"full\" }")

    def _say_examples(self) -> None:
        self.say("accepts rejects", "rule examples { match y = aten.leaky_relu.default(x)  require x.rank == 2 "
                 "accepts aten.leaky_relu.default(float32[2,3])  rejects aten.leaky_relu.default(float32[2]) }")


def is_clean(seed: int) -> bool:
    """Has the set of a seed no finding planted?"""
    return seed % 5 == 4


def rule_set(seed: int, rows_each: int = 4) -> RuleSet:
    """The set of a seed: `rows_each` rows in turn, so that 23 seeds have every row; every fifth is clean."""
    writer = _Writer(seed, clean=is_clean(seed))
    writer.context(_rows(seed, rows_each))
    ops = writer.draw.sample(UNARY, rows_each)
    taken: set[str] = set()
    for row, op in zip(_rows(seed, rows_each), ops, strict=True):
        if "OP" not in row.match and row.match.partition("(")[0] in taken:
            continue
        taken.add(row.match.partition("(")[0])
        writer.plant(row, op)
    writer.statements()
    return writer.finished()


def single(row: Row, kind: str) -> RuleSet:
    """The set in which only one thing is planted."""
    writer = _Writer(0, clean=False)
    writer.context([row])
    writer.plant_as(kind, row, row.match.replace("OP", "aten.relu.default"))
    return writer.finished()


def _rows(seed: int, count: int) -> list[Row]:
    order = list(ROWS)
    turn, place = divmod(seed * count, len(order))
    random.Random(turn).shuffle(order)
    return [order[(place + i) % len(order)] for i in range(count)]


def used_by(rows: tuple[Row, ...]) -> Iterator[str]:
    """Every construct that rows speak of."""
    for row in rows:
        yield from row.uses
