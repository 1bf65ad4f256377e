"""Small Edge programs from the example syntax of the rules language, built by hand for both partitioners.

`edge_program(text)` reads `op(args)` or `{ a = op(args)  b = op(a) }`; `constant` tensors become parameters, `buffer`
tensors buffers, `mutable_buffer` tensors buffers that the program writes, other tensors inputs. Letters are symbolic
dims (`u…` unbacked ones); a dim's name as an argument of a call is the size, read by a `sym_size`. Values that nothing
uses are returned, `returned` names further ones.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import ValueRanges

from apportion.grammar import tree
from apportion.grammar.parse import parse

__all__ = ["edge_program"]

_VIEWS = ("view", "permute", "unsqueeze", "slice", "t", "transpose", "expand", "squeeze", "select")
_INPUT_KINDS = {
    "constant": InputKind.PARAMETER,
    "buffer": InputKind.BUFFER,
    "mutable_buffer": InputKind.BUFFER,
    "lifted": InputKind.CONSTANT_TENSOR,
    None: InputKind.USER_INPUT,
}


def edge_program(text: str, returned: tuple[str, ...] = ()) -> ExportedProgram:
    """The program of one example; `ValueError` where the text does not parse."""
    plain, kinds = _special_kinds(f"rule probe {{ match y = _ accepts {text} }}")
    parsed = parse(plain, text)
    if parsed.file is None or parsed.diagnostics:
        raise ValueError("\n".join(map(str, parsed.diagnostics)))
    rule = parsed.file.statements[0]
    assert isinstance(rule, tree.Rule)
    example = next(clause for clause in rule.body if isinstance(clause, tree.Example))
    return _Builder(kinds).build(example, returned)


def _special_kinds(text: str) -> tuple[str, dict[int, str]]:
    """The text with `constant` for the other kinds of placeholders, and where each of those stood."""
    kinds: dict[int, str] = {}
    pieces: list[str] = []
    length = position = 0
    for found in re.finditer(r"\b(mutable_buffer|buffer|lifted)(?= \w+\[)", text):
        pieces += [text[position : found.start()], "constant"]
        length += found.start() - position
        kinds[length] = found.group()
        length += len("constant")
        position = found.end()
    return "".join([*pieces, text[position:]]), kinds


class _Builder:
    def __init__(self, kinds: dict[int, str]) -> None:
        self.kinds = kinds
        load_libraries()
        self.shapes = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.shapes, allow_non_fake_inputs=True)
        self.graph = fx.Graph()
        self.inputs: list[InputSpec] = []
        self.state: dict[str, Any] = {}
        self.lifted: dict[str, Any] = {}
        self.dims: dict[str, Any] = {}
        self.sizes: dict[str, tuple[fx.Node, int]] = {}
        self.values: dict[str, fx.Node] = {}
        self.written: list[tuple[fx.Node, str]] = []

    def build(self, example: tree.Example, returned: tuple[str, ...]) -> ExportedProgram:
        self._collect_inputs(example)
        for step in example.steps:
            node = self._call(step.call)
            if step.name is not None:
                self.values[step.name] = node
        mutated = [self._write(node) for node, _ in self.written]
        unused = [n for n in self.graph.nodes if n.op == "call_function" and not n.users and n not in mutated]
        results = [*self._elements(unused), *(self.values[name] for name in returned)]
        self.graph.output((*mutated, *results))
        outputs = [
            OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(node.name), target)
            for node, (_, target) in zip(mutated, self.written, strict=True)
        ]
        outputs += [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
        return self._program(ExportGraphSignature(self.inputs, outputs), len(results))

    def _program(self, signature: ExportGraphSignature, results: int) -> ExportedProgram:
        from executorch.exir import EdgeCompileConfig
        from executorch.exir.verification.verifier import EXIREdgeDialectVerifier

        users = tuple(0 for spec in self.inputs if spec.kind is InputKind.USER_INPUT)
        in_spec = pytree.tree_structure((users, {}))
        out_spec = pytree.tree_structure(tuple(range(results)))
        call = ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec)
        constraints = {
            dim.node.expr: ValueRanges(1, 64)
            for dim in self.dims.values()
            if isinstance(dim, torch.SymInt) and isinstance(dim.node.expr, sympy.Symbol)
        }
        return ExportedProgram(
            root=torch.nn.Module(),
            graph=self.graph,
            graph_signature=signature,
            state_dict=self.state,
            range_constraints=constraints,
            module_call_graph=[ModuleCallEntry("", call)],
            constants=self.lifted,
            verifiers=[
                EXIREdgeDialectVerifier(
                    edge_compile_config=EdgeCompileConfig(_check_ir_validity=False), class_only=True
                )
            ],
        )

    # --- inputs -----------------------------------------------------------------------------------------------

    def _collect_inputs(self, example: tree.Example) -> None:
        """Make all placeholders first, constants before inputs, as an exported program has them."""
        found: list[tree.ExampleTensor] = []
        for step in example.steps:
            _visit(step.call, found.append)
        order = list(_INPUT_KINDS)
        for tensor in sorted(found, key=lambda t: order.index(self._kind(t))):
            self.values[_key(tensor)] = self._placeholder(tensor)

    def _placeholder(self, tensor: tree.ExampleTensor) -> fx.Node:
        assert tensor.shape is not None
        described = self._kind(tensor)
        name = f"{described or 'x'}_{len(self.inputs)}"
        shape = [self._dim(dim) if isinstance(dim, str) else dim for dim in tensor.shape]
        with self.mode:
            value = torch.empty(shape, dtype=getattr(torch, tensor.dtype))
        node = self.graph.placeholder(name)
        node.meta["val"] = value
        for position, dim in enumerate(tensor.shape):
            if isinstance(dim, str):
                self.sizes.setdefault(dim, (node, position))
        kind = _INPUT_KINDS[described]
        target = None if kind is InputKind.USER_INPUT else name
        persistent = True if kind is InputKind.BUFFER else None
        self.inputs.append(InputSpec(kind, TensorArgument(name), target, persistent))
        if kind in (InputKind.PARAMETER, InputKind.BUFFER):
            self.state[name] = torch.nn.Parameter(value, False) if kind is InputKind.PARAMETER else value
        elif kind is InputKind.CONSTANT_TENSOR:
            self.lifted[name] = value
        if described == "mutable_buffer":
            self.written.append((node, name))
        return node

    def _kind(self, tensor: tree.ExampleTensor) -> str | None:
        return self.kinds.get(tensor.span.start, tensor.kind)

    def _dim(self, name: str) -> Any:
        if name not in self.dims:
            if name.startswith("u"):
                self.dims[name] = self.shapes.create_unbacked_symint()
            else:
                hint = 7 + len(self.dims)
                source = ConstantSource(name)
                symbol = self.shapes.create_symbol(hint, source, DimDynamic.DYNAMIC)
                self.dims[name] = self.shapes.create_symintnode(symbol, hint=hint, source=source)
        return self.dims[name]

    # --- calls ------------------------------------------------------------------------------------------------

    def _call(self, call: tree.ExampleCall) -> fx.Node:
        name = _dotted(call.callee)
        arguments = [(keyword, self._argument(value)) for keyword, value in call.arguments]
        positional = tuple(value for keyword, value in arguments if keyword is None)
        keywords = {keyword: value for keyword, value in arguments if keyword is not None}
        return self._node(edge_op(name), positional, keywords)

    def _node(self, target: Any, positional: tuple[Any, ...], keywords: dict[str, Any]) -> fx.Node:
        node = self.graph.call_function(target, positional, keywords)
        values = pytree.tree_map_only(fx.Node, lambda n: n.meta["val"], (positional, dict(keywords)))
        with self.mode, torch.no_grad(), enable_python_dispatcher():
            node.meta["val"] = _kernel(target)(*values[0], **values[1])
        return node

    def _argument(self, value: tree.ExampleArgument | None) -> Any:
        if isinstance(value, tree.ExampleTensor):
            return self._tensor(value)
        if isinstance(value, tree.ExampleList):
            return [self._argument(item) for item in value.items]
        if isinstance(value, tree.ExampleCall):
            return self._call(value)
        if isinstance(value, tree.Literal):
            return value.value
        if isinstance(value, tree.Unary):
            return -self._argument(value.operand)  # type: ignore[arg-type]
        if isinstance(value, tree.Name):
            return self._named(value.id)
        if isinstance(value, tree.Index):
            base, index = self._argument(value.value), self._argument(value.index)  # type: ignore[arg-type]
            return self._node(operator.getitem, (base, index), {})
        raise ValueError(f"not an argument of an example: {value!r}")

    def _tensor(self, value: tree.ExampleTensor) -> Any:
        if value.dtype in self.values and value.shape is not None:  # `c[0]` of an earlier step reads like a tensor
            return self._node(operator.getitem, (self.values[value.dtype], value.shape[0]), {})
        return self.values[_key(value)] if value.shape is not None else self._named(value.dtype)

    def _named(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.dims:
            node, position = self.sizes[name]
            self.values[name] = self._node(torch.ops.aten.sym_size.int, (node, position), {})
            return self.values[name]
        return getattr(torch, name)

    def _elements(self, nodes: list[fx.Node]) -> list[fx.Node]:
        """What the program returns of the unused nodes: the first element of a tuple."""
        return [
            self._node(operator.getitem, (node, 0), {}) if isinstance(node.meta["val"], (tuple, list)) else node
            for node in nodes
        ]

    def _write(self, buffer: fx.Node) -> fx.Node:
        return self._node(edge_op("aten.mul.Tensor"), (buffer, buffer), {})


def _kernel(target: Any) -> Callable[..., Any]:
    """What computes the metadata: fake kernels of some copying views know no symbols, the views themselves do."""
    name = getattr(target, "__name__", "")
    namespace, _, rest = name.partition(".")
    base, _, overload = rest.partition(".")
    if namespace != "aten" or not base.endswith("_copy"):
        return target  # type: ignore[no-any-return]
    view = getattr(getattr(torch.ops.aten, base.removesuffix("_copy")), overload)
    return lambda *args, **kwargs: view(*args, **kwargs).clone(memory_format=torch.contiguous_format)


def load_libraries() -> None:
    """Register the ops outside of torch that examples speak of."""
    import executorch.exir.passes.dim_order_ops_registry  # noqa: F401
    import torchao.quantization.pt2e.quantize_pt2e
    import torchao.quantization.quant_primitives  # noqa: F401


def edge_op(name: str) -> Any:
    """The Edge op of that name; views are their copying twins there."""
    if name in ("operator.getitem", "getitem"):
        return operator.getitem
    from executorch.exir.dialects._ops import ops

    namespace, base, *overload = name.split(".")
    if namespace == "aten" and base in _VIEWS:
        base += "_copy"
    packet = getattr(getattr(ops.edge, namespace), base)
    return getattr(packet, overload[0] if overload else "default")


def _dotted(callee: tree.Expr) -> str:
    if isinstance(callee, tree.Name):
        return callee.id
    assert isinstance(callee, tree.Attribute)
    return f"{_dotted(callee.value)}.{callee.name}"


def _key(tensor: tree.ExampleTensor) -> str:
    return f"@{tensor.span.start}"


def _visit(value: Any, report: Callable[[tree.ExampleTensor], None]) -> None:
    if isinstance(value, tree.ExampleTensor):
        if value.shape is not None and isinstance(getattr(torch, value.dtype, None), torch.dtype):
            report(value)
    elif isinstance(value, tree.ExampleList):
        for item in value.items:
            _visit(item, report)
    elif isinstance(value, tree.ExampleCall):
        for _, argument in value.arguments:
            _visit(argument, report)
    elif isinstance(value, tree.Index):
        _visit(value.value, report)
