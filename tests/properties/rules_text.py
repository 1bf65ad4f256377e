"""Random rules files, drawn from every construct of the language, about the ops that `programs.py` draws.

Texts are made from a seed and mean something: names are bound, types fit, and many of the rules match.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from attrs import define, field, frozen

__all__ = ["EXTERNS", "Pair", "draw_rules"]

EXTERNS = ("small_name", "even_rank", "odd_rank")
"""The predicates that the texts call; the tests register them. `unheard_of` is declared too and never registered."""

UNARY = ("relu", "sigmoid", "tanh", "neg", "abs", "sin", "gelu", "silu", "clone", "alias", "detach", "contiguous")
BINARY = ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum.default", "minimum.default", "where.self")
COMMUTATIVE = ("mul.Tensor", "maximum.default", "minimum.default", "add.Tensor")
VIEWS = ("view.default", "reshape.default", "permute.default", "transpose.int", "unsqueeze.default", "squeeze.dims",
         "select.int", "slice.Tensor", "expand.default", "narrow.default")
MATRIX = ("linear.default", "mm.default", "addmm.default", "bmm.default", "matmul.default")
REDUCE = ("sum.dim_IntList", "mean.dim", "amax.default", "softmax.int", "_softmax.default", "cumsum.default",
          "layer_norm.default", "any.dims", "sum.default", "mean.default")
SEVERAL = {"topk.default": 2, "max.dim": 2, "sort.default": 2, "var_mean.correction": 2, "native_layer_norm.default": 3}
LISTS = ("split.Tensor", "unbind.int", "split_with_sizes.default", "chunk.default")
JOINS = ("cat.default", "stack.default")
SCALARS = ("add.Scalar", "mul.Scalar", "gt.Scalar", "lt.Scalar", "clamp.default", "rsub.Scalar", "hardtanh.default")
WRITES = ("add_.Tensor", "mul_.Tensor", "copy_.default", "fill_.Scalar", "copy.default", "slice_scatter.default")
CHANCE = ("rand_like.default", "bernoulli.default", "dropout.default", "rand.default", "randn.default")
MADE = ("full.default", "ones.default", "full_like.default", "_to_copy.default", "to.dtype")
DEMANDS = ("_assert_async.msg", "_assert_tensor_metadata.default")
MANY = frozenset({*(name.split(".")[0] for name in SEVERAL), "split", "unbind", "split_with_sizes", "chunk"})
EVERY = (*(f"{name}.default" for name in UNARY), *BINARY, *VIEWS, *MATRIX, *REDUCE, *SEVERAL, *LISTS, *JOINS, *SCALARS,
         *MADE)
KINDS = ("tensor", "node", "none", "literal", "int", "float", "bool", "str", "constant", "parameter", "buffer",
         "mutable_buffer", "frozen", "user_input", "graph_input", "returned", "static", "symbolic", "unbacked",
         "contiguous", "channels_last")
DTYPES = ("float32", "float64", "int64", "int32", "bool", "float16", "bfloat16")


@frozen
class Pair:
    """What a program does with a result: an op, which of its outputs, the op that takes it, and as which argument.

    `earlier` is the op that makes the producer's first argument, where there is one; `single` says that nothing else
    uses the result, `takes` that the producer's first argument is a tensor.
    """

    producer: str
    element: int | None
    user: str
    argument: int
    earlier: str | None = None
    single: bool = True
    takes: bool = True


@define
class Scope:
    """What a condition may speak of: single tensors, nodes of any number of outputs, lists of values, and numbers."""

    values: list[str] = field(factory=list)
    nodes: list[str] = field(factory=list)
    lists: list[str] = field(factory=list)
    numbers: list[str] = field(factory=list)
    optional: list[str] = field(factory=list)
    walked: list[str] = field(factory=list)
    claimed: list[str] = field(factory=list)
    op: str = ""


@define
class _Writer:
    rng: random.Random
    pairs: Sequence[Pair] = ()
    lines: list[str] = field(factory=list)
    contracts: list[str] = field(factory=list)
    rules: list[str] = field(factory=list)
    has: set[str] = field(factory=set)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, choices: Sequence[str]) -> str:
        return self.rng.choice(list(choices))

    def because(self) -> str:
        sentence = self.pick(["the datasheet says so", "not on this unit", "page 12"])
        return f' because "{sentence}"' if self.chance(.4) else ""

    # --- expressions ---------------------------------------------------------------------------------------------

    def integer(self, scope: Scope, depth: int = 2) -> str:
        """An expression that is an int."""
        v = self.pick(scope.values) if scope.values else None
        leaves = ["1", "2", "4", "0", "option.count"]
        if v:
            leaves += [f"{v}.rank", f"{v}.numel", f"len({v}.users)", f"len({v}.shape)", f"{v}.nbytes", f"{v}.shape[-1]",
                       f"{v}.storage_offset", f"{v}.dtype.itemsize", f"prod({v}.shape)", f"{v}.shape[0]",
                       f"len({v}.strides)", f"sum({v}.dim_order)", f"len({v}.shape[1:])", f"len({v}.inputs)",
                       f"flops({v})", f"len({v}.op.tags)"]
        if scope.lists:
            leaves += [f"len({self.pick(scope.lists)})", f"len(distinct({self.pick(scope.lists)}))"]
        if scope.numbers:
            leaves.append(self.pick(scope.numbers))
        if depth <= 0 or self.chance(.4):
            return self.pick(leaves)
        a, b = self.integer(scope, depth - 1), self.integer(scope, depth - 1)
        made = [f"({a} + {b})", f"({a} - {b})", f"{a} * 2", f"({a} // 2)", f"({a} % 3)", f"max({a}, {b})", f"-({a})",
                f"min({a}, {b})", f"abs({a} - {b})", f"ceil_div({a}, 3)", f"align_up({a}, 8)", f"twice({a})",
                f"({a} if {self.condition(scope, 0)} else {b})", f"({a} // {b})"]
        if v:
            made += [f"sum(s for s in {v}.shape)", f"max(s for s in {v}.shape if s > 1)", f"sum(sorted({v}.strides))",
                     f"count(s > 1 for s in {v}.shape)", f"min(i * 2 for i in range(len({v}.shape)))",
                     f"sum(s * t for s, t in zip({v}.shape, {v}.strides))"]
        return self.pick(made)

    def condition(self, scope: Scope, depth: int = 2) -> str:
        """An expression that is true, false or unknown."""
        if depth > 0 and self.chance(.35):
            a, b = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            return self.pick([f"({a} and {b})", f"({a} or {b})", f"not ({a})", f"({a} implies {b})", f"possible({a})",
                              f"({a} or {b} or {self.condition(scope, 0)})"])
        i = self.integer(scope, depth - 1)
        compared = self.pick(["<", "<=", ">", ">=", "==", "!="])
        made = [f"{i} {compared} {self.integer(scope, 0)}", f"1 <= {i} <= 4096", f"{i} in 0..512",
                f"{i} in {{1, 2, 4, 6, 24}}", f"{i} not in {{3, 5}}", "option.flag", "not option.flag",
                '"float" in option.precisions', 'option.mode == "fast"', f"log2({i} * {i} + 1) < 20", "true",
                f"round({i} / 3) >= 0", "option.ratio < 1.5", f"{i} < inf", f"{i} == nan", "nothing"]
        if scope.values:
            made += [self.about(self.pick(scope.values), scope) for _ in range(8)]
        if scope.nodes:
            made += [self.about_node(self.pick(scope.nodes)) for _ in range(5)]
        if scope.lists:
            found = self.pick(scope.lists)
            made += [f"all(i is tensor for i in {found})", f"any(i.rank == 2 for i in {found})", f"len({found}) <= 3",
                     f"all(i.dtype in floats for i in {found} if i is tensor)"]
        if scope.optional:
            made += [f"present({self.pick(scope.optional)})", f"not present({self.pick(scope.optional)})",
                     f"present({self.pick(scope.optional)}) implies option.flag"]
        if scope.walked:
            made += [f"walked({self.pick(scope.walked)})"] * 2
        return self.pick(made)

    def about(self, v: str, scope: Scope) -> str:
        w = self.pick(scope.values)
        return self.pick([
            f"{v} is {self.pick(KINDS)}", f"{v} is not {self.pick(KINDS)}", f"{v}.dtype in floats",
            f"{v}.dtype == {self.pick(DTYPES)}", f"{v}.dtype == {w}.dtype", f"{v}.dtype.is_floating_point",
            f"{v}.dtype.is_signed", f"broadcastable({v}, {w})", f"depends_on({v}, {w})",
            f"all(s <= 64 for s in {v}.shape)", f"all({v}.shape <= 64)", f"any({v}.strides == 1)",
            f"{v}.shape == {w}.shape", f"{v}.shape + [1] == {w}.shape", f"{v}.op in activations",
            f"{v}.op != aten.relu.default", f'{v}.op.namespace == "aten"', f"{v}.op.is_view",
            f'"core" in {v}.op.tags', f'{v}.device == "cpu"', f'{v}.module == ""', f"all_zero({v})",
            f"max_value({v}) < 9", f"min_value({v}) > -9", f"{v}.meta.mark == 3", f"small_name({v})",
            f"even_rank({v})", f"odd_rank({v})", f"unheard_of({v})", f"{v} == {w}", f"{v}.rank == {w}.rank",
            f"is_flat({v})", f"{v} is none or {v}.rank > 0", f"all(len(u.users) < 3 for u in {v}.users)",
            f"any(u.op == aten.relu.default for u in {v}.users)", f'{v}.source != "x"', f"same_qparams({v}, {w})",
            "x.op == aten.sum.dim_IntList implies x.keepdim" if "x" in scope.values else "option.flag",
        ])

    def about_node(self, n: str) -> str:
        return self.pick([
            f"all(o.dtype in floats for o in {n}.outputs)", f"len({n}.inputs) <= 3", f"len({n}.users) < 4",
            f"all(i is tensor for i in {n}.inputs)", f"{n}.op in every_op",
            f"all(len(o.users) > 0 for o in {n}.outputs)",
            f"any(o is returned for o in {n}.outputs)", f"not any(i is constant for i in {n}.inputs)",
            f"count(i is frozen for i in {n}.inputs) == 0", f"len({n}.outputs) >= 1",
        ])

    # --- rules ---------------------------------------------------------------------------------------------------

    def rule(self) -> None:
        name = f"{self.pick(['take', 'fuse', 'chain', 'lone'])}_{len(self.rules)}"
        scope = Scope()
        matched = self.pick_pattern()(scope)
        over = f" over {self.pick(self.rules)}" if self.rules and self.chance(.2) else ""
        doc = ' "from the datasheet"' if self.chance(.3) else ""
        self.lines.append(f"rule {name}{over}{doc} {{")
        self.lines += [f"  {line}" for line in matched]
        if self.chance(.1):
            guard = self.pick(["option.flag or not option.flag", '"float" in option.precisions', "option.count >= 1"])
            self.lines.append(f"  when {guard}")
        if self.chance(.15) and scope.values:
            self.lines.append(f"  given {{ g = aten.relu.default({self.pick(scope.values)}) }}")
        elif self.chance(.1) and scope.values:
            self.lines.append(f"  given {{ g = _(*{self.pick(scope.values)}) }} | {{ g = {self.pick(scope.values)} }}"
                              if self.chance(.2) else f"  given g = _({self.pick(scope.values)})")
        if self.chance(.3):
            self.lines.append(f"  let size = {self.integer(scope)}")
            scope.numbers.append("size")
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            self.lines.append(f"  require {self.condition(scope)}{self.because()}")
        if self.contracts and scope.values and self.chance(.3):
            self.lines.append(f"  require {self.pick(self.contracts)}({self.pick(scope.values)}, floats)")
        if self.chance(.12):
            self.lines.append("  require " + self.pick([
                f"len(nodes) >= {self.rng.choice([1, 1, 2, 3])}", f"len(inputs) <= {self.rng.choice([2, 4, 9])}",
                "sum(i.nbytes for i in inputs) <= 4096", "any(o is tensor for o in outputs)"]) + self.because())
        self.endings(scope)
        self.lines.append("}")
        self.rules.append(name)

    def endings(self, scope: Scope) -> None:
        takable = [v for v in scope.values if v in ("w", "b")]
        if takable and self.chance(.5):
            self.lines.append(f"  take {', '.join(takable)}{' if option.flag' if self.chance(.3) else ''}")
        if scope.claimed and self.chance(.15):
            self.lines.append(f'  mark {self.pick(scope.claimed)} as "{self.pick(["TEST_MARK", "test.other"])}"')
        if self.chance(.25):
            value = self.pick(['"full"', '"auto"', "1", "true", '"fast" if option.flag else "slow"', "option.count",
                               'x"00ff"', self.integer(scope, 1)])
            self.lines.append(f"  emit {self.pick(['precision', 'units', chr(34) + 'acme.key' + chr(34)])} = {value}")
        if scope.op and self.chance(.25):
            verdict = self.pick(["accepts", "rejects"])
            self.lines.append(f"  {verdict} {scope.op}")

    def pick_pattern(self) -> Callable[[Scope], list[str]]:
        patterns: list[tuple[int, Callable[[Scope], list[str]]]] = [
            (6, self.op_set), (3, self.one_op), (3, self.chain), (2, self.optional_tail), (2, self.alternatives),
            (2, self.blocks), (2, self.shared), (2, self.through), (2, self.starred), (2, self.commutative),
            (3, self.several), (2, self.elements), (2, self.named_pattern), (1, self.silu), (2, self.effects),
            (1, self.control), (1, self.literals), (1, self.roots), (1, self.declared), (1, self.packet),
            (1, self.lists),
        ]
        if self.pairs:
            patterns.append((18, self.paired))
        return self.rng.choices([p for _, p in patterns], [w for w, _ in patterns])[0]

    def paired(self, scope: Scope) -> list[str]:
        """What a program does, as a pattern: mostly it matches."""
        pair = self.rng.choice(self.pairs)
        self.claims(scope, *(["z"] if pair.user.split(".")[0] not in MANY else []))
        first = "_"
        if pair.takes:
            first = f"aten.{pair.earlier}(_)" if pair.earlier and self.chance(.4) else "x"
        if first == "x":
            scope.values.append("x")
        term = f"aten.{pair.producer}({first})"
        if self.chance(.2):
            term = f"{{aten.{pair.producer}, {self.braces(UNARY)}}}({first})"
        if self.chance(.1 if pair.single else .7) or "aten" in first and self.chance(.3):
            term = f"shared {term}"
        at = "" if pair.element is None else f"[{pair.element}]"
        others = "_, " * pair.argument
        if self.chance(.5) or at and term.startswith("shared"):
            if pair.element is None:
                self.claims(scope, "y")
            else:
                scope.nodes.append("y")
                scope.claimed.append("y")
            return ["match {", f"  y = {term}", f"  z = aten.{pair.user}({others}y{at})", "}"]
        if pair.element is None and self.chance(.15):
            term = f"({term} | aten.relu.default(_))"
        elif pair.element is None and not term.startswith("shared") and self.chance(.2):
            term = f"{term}?"
        return [f"match z = aten.{pair.user}({others}{term}{at})"]

    def claims(self, scope: Scope, *names: str) -> None:
        scope.values += names
        scope.claimed += names

    def braces(self, names: Sequence[str], most: int = 5) -> str:
        """Several ops, with expansion where it can be."""
        if names is UNARY:
            chosen = self.rng.sample(list(names), self.rng.randint(1, min(most, len(names))))
            return f"aten.{{{','.join(chosen)}}}.default" if len(chosen) > 1 else f"aten.{chosen[0]}.default"
        chosen = self.rng.sample(list(names), self.rng.randint(1, min(most, len(names))))
        return ", ".join(f"aten.{name}" for name in chosen)

    def op_set(self, scope: Scope) -> list[str]:
        scope.nodes.append("y")
        scope.lists.append("xs")
        scope.claimed.append("y")
        ops = self.pick([f"{{{self.braces(UNARY)}, {self.braces(BINARY)}}}", f"{{{self.braces(EVERY, 12)}}}",
                         "every_op", "activations", f"{{{self.braces(VIEWS)}}}", f"{{{self.braces(MATRIX)}}}",
                         "float_ops"])
        return [f"match y = {ops}(*xs)"]

    def one_op(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values.append("x")
        text, example = self.rng.choice([
            ("aten.softmax.int(x, dim: d)", "aten.softmax.int(float32[2,4], -1)"),
            ("aten._softmax.default(x, d, _)", "aten._softmax.default(float32[2,4], -1, false)"),
            ("aten.unsqueeze.default(x, d)", "aten.unsqueeze.default(float32[2,s], 0)"),
            ("aten.cumsum.default(x, dim: d)", "aten.cumsum.default(float32[2,4], 1)"),
            ("aten.transpose.int(x, d, _)", "aten.transpose.int(float32[2,4], 0, 1)"),
            ("aten.hardtanh.default(x, d)", "aten.hardtanh.default(float32[2,4], -1.0, 1.0)"),
            ("aten.permute.default(x, d)", "aten.permute.default(constant float32[2,4], [1, 0])"),
        ])
        scope.op = example
        demands = ["require d is literal", "require d == d"]
        if "permute" not in text:
            demands.append("require possible(d > -9)")
        return [f"match y = {text}", self.pick(demands)]

    def linear(self, scope: Scope) -> str:
        scope.values += ["x", "w"]
        which = self.rng.randrange(3)
        if which == 0:
            scope.values.append("b")
            return "aten.linear.default(x, w, b)"
        return "aten.mm.default(x, w)" if which == 1 else "aten.matmul.default(x, w)"

    def chain(self, scope: Scope) -> list[str]:
        body = self.linear(scope)
        self.claims(scope, "y", "z")
        if self.chance(.5):
            return ["match {", f"  y = {body}", f"  z = {{{self.braces(UNARY)}}}(y)", "}"]
        scope.values.remove("y")
        scope.claimed.remove("y")
        return [f"match z = {{{self.braces(UNARY)}}}({body})"]

    def optional_tail(self, scope: Scope) -> list[str]:
        if self.chance(.5):
            scope.values.append("x")
            body = f"{{{self.braces(BINARY)}}}(x, _)"
        else:
            body = self.linear(scope)
        self.claims(scope, "y", "z")
        scope.optional.append("z")
        return ["match {", f"  y = {body}", "  z = activations(y)?", "}"]

    def alternatives(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values.append("x")
        a, b = self.pick(UNARY), self.pick(UNARY)
        if self.chance(.5):
            return [f"match y = aten.{a}.default(x) | aten.neg.default(aten.{b}.default(x))"]
        return [f"match y = aten.mul.Tensor((aten.{a}.default(x) | aten.{b}.default(x) | x), _)"]

    def blocks(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values.append("x")
        a, b = self.pick(UNARY), self.pick(BINARY[:4])
        return [f"match {{ u = aten.{a}.default(x)  y = aten.{b}(u, _) }} | {{ y = aten.{b}(x, x) }}"]

    def shared(self, scope: Scope) -> list[str]:
        self.claims(scope, "d", "y")
        scope.values.append("x")
        a = self.pick([*UNARY, "clone"])
        return ["match {", f"  d = shared aten.{a}.default(x)", f"  y = {{{self.braces(BINARY)}}}(d, _)", "}"]

    def through(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values.append("x")
        scope.walked.append("x")
        return [f"match y = {{{self.braces(UNARY)}, aten.add.Tensor}}(through{{{self.braces(VIEWS)}}}(x))"]

    def starred(self, scope: Scope) -> list[str]:
        scope.nodes.append("y")
        scope.claimed.append("y")
        scope.lists.append("xs")
        a = self.pick(UNARY)
        return self.rng.choice([
            ["match y = aten.cat.default([*xs])"],
            ["match y = aten.cat.default([*xs], dim: -1)"],
            [f"match y = {{aten.cat.default, aten.stack.default}}(*(aten.{a}.default(xs) | xs))"]
            if self.chance(.2) else
            [f"match y = {{aten.cat.default, aten.stack.default}}(*shared aten.{a}.default(xs))"],
            ["match {", f"  d = shared {{{self.braces(UNARY)}}}(xs)", "  y = aten.cat.default([*d])", "}"],
        ])

    def commutative(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values += ["a", "c"]
        op = self.pick(COMMUTATIVE)
        if op == "add.Tensor":
            return ["match {", "  m = aten.mul.Tensor(a, b2)", "  y = aten.add.Tensor(m, c)", "}"]
        return [f"match y = aten.{op}({self.pick(['aten.abs.default', 'aten.sigmoid.default', 'activations'])}(a), c)"]

    def several(self, scope: Scope) -> list[str]:
        scope.nodes.append("y")
        scope.claimed.append("y")
        scope.values.append("x")
        name = self.pick(list(SEVERAL))
        return [f"match y = aten.{name}(x)", self.pick([
            f"require y[{SEVERAL[name] - 1}].rank >= 0", "require x is tensor",
                                                        "require y[0].dtype in floats"])]

    def elements(self, scope: Scope) -> list[str]:
        self.claims(scope, "z")
        scope.values.append("x")
        name = self.pick(list(SEVERAL))
        a = self.pick(UNARY)
        if self.chance(.5):
            return [f"match z = {{aten.{a}.default, aten.mul.Tensor, aten.add.Tensor}}(aten.{name}(x)[0])"]
        scope.nodes.append("y")
        return ["match {", f"  y = aten.{name}(x)", f"  z = {{{self.braces(UNARY)}, aten.mul.Tensor}}(y[0])", "}"]

    def lists(self, scope: Scope) -> list[str]:
        scope.nodes.append("y")
        scope.claimed.append("y")
        scope.values.append("x")
        if self.chance(.5):
            return [f"match y = {{{self.braces(LISTS)}}}(x)"]
        scope.values.append("x2")
        return ["match y = aten.cat.default([x, x2])"]

    def named_pattern(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values += ["x", "w"]
        if self.chance(.3):
            return ["match y = activations(affine(x, w, _))"]
        if self.chance(.4):
            scope.numbers.append("k")
            scope.values.remove("w")
            return ["match y = scaled(x, factor: k)"]
        scope.values.append("b")
        return ["match y = affine(x, w, b)"]

    def silu(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values.append("x")
        return [f"match y = aten.mul.Tensor(x, aten.{self.pick(['sigmoid', 'tanh', 'abs'])}.default(x))"]

    def effects(self, scope: Scope) -> list[str]:
        scope.nodes.append("y")
        scope.claimed.append("y")
        return [f"match y = {{{self.braces((*WRITES, *CHANCE, *DEMANDS), 6)}}}"
                + "(*xs)"]

    def control(self, scope: Scope) -> list[str]:
        scope.nodes.append("y")
        scope.claimed.append("y")
        lines = ["match y = higher_order.cond(*xs)"]
        if self.chance(.5):
            lines.append(self.pick(["require all(all(n is claimed for n in g.nodes) for g in y.subgraphs)",
                                    "require all(len(g.partitions) <= 1 for g in y.subgraphs)",
                                    "require all(len(g.nodes) < 9 for g in y.subgraphs)"]))
        return lines

    def literals(self, scope: Scope) -> list[str]:
        self.claims(scope, "y")
        scope.values.append("x")
        return ["match y = " + self.pick([
            "aten.mul.Tensor(x, 2)", "aten.mul.Scalar(x, 0.5)", "aten.add.Tensor(x, 1)",
            "aten.add.Tensor(x, _, alpha: 2)",
            "aten.clamp.default(x, -2, 2)", "aten.linear.default(x, _, none)", "aten.softmax.int(x, 1)",
            'aten.gelu.default(x, approximate: "none")', "aten.hardtanh.default(x, -1.0, 6.0)",
            "aten.sum.dim_IntList(x, [-1], false)"])]

    def roots(self, scope: Scope) -> list[str]:
        """Two values that nothing in the match uses, joined by what both take."""
        self.claims(scope, "p", "y")
        scope.values.append("x")
        a, b = self.rng.sample(UNARY, 2)
        return [f"match {{ p = aten.{a}.default(x)  y = aten.{b}.default(x) }}"]

    def declared(self, scope: Scope) -> list[str]:
        scope.values.append("x")
        scope.nodes.append("y")
        return ["match y = testing_only.scale.default(x, k)", "require k is int"]

    def packet(self, scope: Scope) -> list[str]:
        scope.nodes.append("y")
        scope.claimed.append("y")
        return [f"match y = aten.{self.pick(['add', 'mul', 'sum', 'mean', 'squeeze', 'max'])}(*xs)"]

    # --- the file ------------------------------------------------------------------------------------------------

    def header(self) -> None:
        self.lines.append(f'backend "{self.pick(["TestNpu", "TestDsp", "Test Gpu"])}" language 1'
                          + ' "made up"' * self.chance(.3))
        if self.chance(.1):
            self.lines.append('use "std/ops"')
        self.lines += [
            "option flag: bool = true" + ' "a switch"' * self.chance(.3),
            f"option count: int = {self.rng.choice([1, 2, 8])}",
            "option ratio: float = 0.5",
            "option mode: {fast, small} = " + self.pick(['"fast"', '"small"']),
            "option precisions: set of {float, int8} = " + self.pick(['{"float"}', '{"float", "int8"}', "{}"]),
            "let floats = {float32, float64}",
            f"ops activations = {{{self.braces(UNARY, 8)}}}",
            f"ops every_op = {{{self.braces(EVERY, 40)}}} | activations" + self.pick(["", " - {aten.sub.Tensor}"]),
            f"ops float_ops = {{{self.braces(UNARY, 9)}, {self.braces(BINARY, 4)}, {self.braces(REDUCE)}}}",
            "let twice(n) = n * 2",
            "let nothing = false",
            "let is_flat(v) = v.rank <= 1",
        ]
        if self.chance(.3):
            self.lines.append("option label: str = \"x\"")
        self.lines += [
            'meta mark: int = "test.mark"',
            'extern small_name(n) "whether the name of a node is short"',
            "extern even_rank(n): bool",
            "extern odd_rank(n): bool",
            "extern unheard_of(n)",
            "disjoint even_rank, odd_rank",
            'declare "testing_only::scale(Tensor a, int n=1) -> Tensor"',
            "pattern affine(x, w, b?) = aten.linear.default(x, w, b) | aten.addmm.default(b, x, aten.t.default(w))"
            " | aten.mm.default(x, w)",
            "pattern scaled(x, factor) = aten.mul.Tensor(x, factor) | aten.neg.default(x) with factor = -1",
        ]
        for number in range(self.rng.choice([0, 1, 2])):
            name = f"terms_{number}"
            scope = Scope(values=["n"])
            self.lines.append(f"contract {name}(n, dtypes) {{")
            if self.chance(.5):
                self.lines.append(f"  let size = {self.integer(scope)}")
                scope.numbers.append("size")
            self.lines.append(f"  require n.dtype in dtypes{self.because()}")
            if self.chance(.4):
                self.lines.append(f"  require {self.condition(scope, 1)}{self.because()}")
            if self.contracts and self.chance(.5):
                self.lines.append(f"  require {self.contracts[0]}(n, dtypes)")
            self.lines.append("}")
            self.contracts.append(name)

    def invariant(self, number: int) -> None:
        match, scope = self.rng.choice([
            ("match y = _", Scope(nodes=["y"])),
            ("match y = every_op(*xs)", Scope(nodes=["y"], lists=["xs"])),
            ("match y = activations(x)", Scope(values=["x", "y"])),
        ])
        demand = self.pick(["all(o.dtype != int64 for o in y.outputs)", "all(possible(o.numel > 0) for o in y.outputs)",
                            f"possible({self.condition(scope, 1)})", self.condition(scope, 1)])
        because = self.because()
        self.lines.append(f'invariant bound_{number} "of the unit" {{ {match} require {demand}{because} }}')

    def partition(self) -> None:
        modes = ["adjacent", "adjacent", "all", "siblings", "none"]
        keys = [f'merge = "{self.pick(modes)}"']
        for key, values in {"min_nodes": [1, 2, 3], "max_nodes": [2, 4, 8], "max_partitions": [1, 2, 5],
                            "max_inputs": [1, 2, 4], "max_outputs": [1, 2], "max_constant_bytes": [64, 1024]}.items():
            if self.chance(.12):
                keys.append(f"{key} = {self.rng.choice(values)}" + self.pick(["", " * option.count"]))
        if self.chance(.3):
            keys.append(f'constants = "{self.pick(["all", "unshared", "none"])}"')
        if self.chance(.2):
            keys.append(f"mutable_buffers = {self.pick(['true', 'false', 'option.flag'])}")
        scope = Scope(nodes=["n"])
        if self.chance(.2):
            drop = self.pick(["n.op in {aten.view.default, aten.permute.default}", f"not ({self.about_node('n')})",
                              "n.op in activations and len(nodes) < 3", "any(i in inputs for i in n.inputs)"])
            keys.append(f"trim {drop}{self.because()}")
        if self.chance(.2):
            keys.append("let weight = sum(flops(n) for n in nodes)")
            drop = self.pick(["weight == 0 and len(nodes) == 1", "all(n.op in {aten.view.default} for n in nodes)",
                              "sum(i.nbytes for i in inputs) > 4000", "len(outputs) > 3", "len(constants) > 2"])
            keys.append(f"reject {drop}{self.because()}")
        del scope
        self.lines += ["partition {", *(f"  {key}" for key in keys), "}"]


def draw_rules(seed: int, pairs: Sequence[Pair] = ()) -> str:
    """The rules file of a seed; some of its patterns are drawn from `pairs`, so that they match a program."""
    writer = _Writer(random.Random(seed), pairs)
    if writer.chance(.3):
        writer.lines.append("# drawn at random")
    writer.header()
    if writer.chance(.2):
        writer.lines.append(f"emit precision = {writer.pick(['8', chr(34) + 'auto' + chr(34), 'option.flag'])}")
    for _ in range(writer.rng.choice([1, 2, 3, 5, 8])):
        writer.rule()
    if writer.chance(.7):
        writer.lines.append(f"rule rest {{ match y = {{{writer.braces(EVERY, 45)}}}(*xs) }}")
    for number in range(writer.rng.choice([0, 0, 0, 1, 2])):
        writer.invariant(number)
    if writer.chance(.8):
        writer.partition()
    if writer.chance(.3):
        changes = writer.pick(["", " | {aten.silu.default}", " | {aten.linear.default} - {aten.gelu.default}"])
        writer.lines.append(f"preserve claimed{changes}")
    return "\n".join(writer.lines) + "\n"
