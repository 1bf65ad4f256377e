"""Ops by name: what a rules file may call them, and what their schemas say.

Every op of a graph has one name, whatever form the graph is in: `aten.relu.default` (an `OpOverload`, or the Edge
form of it), `torch.relu`, `operator.add` (plain functions), `Tensor.view` (methods), `nn.Linear` (leaf modules),
`higher_order.cond`. Looking a name up imports and loads nothing: an op is known when its library is there already.
"""

from __future__ import annotations

import difflib
import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from attrs import field, frozen
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx.node import _get_qualified_name, _side_effectful_functions

from apportion.engine.values import Kleene, Unknown, k_compare

__all__ = [
    "COMMUTATIVE",
    "Op",
    "OpArgument",
    "OpSchemaDecl",
    "UnknownOp",
    "is_assertion",
    "is_commutative",
    "is_size_query",
    "op_named",
    "op_of",
    "parse_schema",
    "python_name",
    "resolve_op",
    "schema_difference",
    "schema_of",
    "twin_of",
]


@frozen
class OpArgument:
    """One argument of a schema. `type` is written as in a schema: `Tensor`, `Tensor?`, `int[]`, `Scalar`, `bool`."""

    name: str
    type: str
    kwarg_only: bool = False
    has_default: bool = False
    default: Any = None

    @property
    def is_list(self) -> bool:
        """Whether it takes a list (of numbers, of tensors)."""
        return self.type.rstrip("?").endswith("[]")


@frozen(eq=False)
class Op:
    """An op: its name, its schema and its effects. One object for a name, so identity is equality.

    `is_view`: the result only re-describes the input's data (PyTorch's view ops and their `*_copy` twins).
    `writes` and `aliases`: names of the arguments it writes to, and of those its outputs may share memory with.
    `names`: those of its arguments. `text`: the schema.
    `style`: "aten" (has a schema in the dispatcher, any namespace), "function", "method", "module", "higher_order".
    """

    name: str
    namespace: str
    base: str
    overload: str
    style: str
    schema: torch.FunctionSchema | None = field(default=None, repr=False)
    arguments: tuple[OpArgument, ...] = field(default=(), repr=False)
    returns: tuple[str, ...] = field(default=(), repr=False)
    is_view: bool = field(default=False, repr=False)
    is_mutable: bool = field(default=False, repr=False)
    is_random: bool = field(default=False, repr=False)
    has_effects: bool = field(default=False, repr=False)
    tags: frozenset[str] = field(default=frozenset(), repr=False)
    writes: tuple[str, ...] = field(default=(), repr=False)
    aliases: tuple[str, ...] = field(default=(), repr=False)
    text: str = field(default="", repr=False)
    names: tuple[str, ...] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(a.name for a in self.arguments))

    def __str__(self) -> str:
        return self.name

    def argument(self, name: str) -> OpArgument | None:
        """The argument of that name."""
        return next((a for a in self.arguments if a.name == name), None)

    @property
    def is_multi_output(self) -> bool:
        """Whether a call makes a tuple or a list (its parts are read with `y[0]`), as far as the schema tells."""
        return len(self.returns) > 1 or any(r.endswith("[]") for r in self.returns)


OpSchemaDecl = Op
"""What `parse_schema` makes of a `declare` statement."""


class UnknownOp(LookupError):
    """No op of that name is registered or declared. `nearest` are real names like it, the best first."""

    def __init__(self, name: str, nearest: Sequence[str] = (), hint: str = "") -> None:
        self.name = name
        self.nearest = tuple(nearest)
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"unknown op {self.name}"
        if self.hint:
            text += f": {self.hint}"
        if self.nearest:
            text += f" (did you mean {', '.join(self.nearest)}?)"
        return text


# --- names of what a node calls --------------------------------------------------------------------------------

_BY_NAME: Final[dict[str, Op]] = {}
_BY_TARGET: Final[dict[Any, Op]] = {}
_WRAPPERS: Final = frozenset({"auto_functionalized", "auto_functionalized_v2"})


def op_of(node: fx.Node) -> Op | None:
    """The op that `node` calls; None for placeholders, `get_attr` and the output.

    A call of `auto_functionalized` is seen as the op it wraps.
    """
    kind = node.op
    if kind == "call_function":
        target = node.target
        try:
            return _BY_TARGET[target]
        except KeyError:
            return _op_of_function(node, target)
        except TypeError:  # a callable that can't be hashed
            return _made(_function_name(target), lambda: _function_op(target))
    if kind == "call_method":
        name = f"Tensor.{node.target}"
        return _BY_NAME.get(name) or _made(name, lambda: _method_op(str(node.target)))
    if kind == "call_module":
        return _module_op_of(node)
    return None


def _op_of_function(node: fx.Node, target: Any) -> Op:
    if isinstance(target, HigherOrderOperator) and _higher_order_name(target) in _WRAPPERS:
        wrapped = node.args[0] if node.args else node.kwargs.get("_mutable_op")
        return _op_of_target(wrapped)
    return _op_of_target(target)


def _op_of_target(target: Any) -> Op:
    overload = _overload_of(target)
    if overload is not None:
        op = op_of_overload(overload)
    elif isinstance(target, HigherOrderOperator):
        op = _made(f"higher_order.{_higher_order_name(target)}", lambda: _higher_order_op(target))
    else:
        op = _made(_function_name(target), lambda: _function_op(target))
    _BY_TARGET[target] = op
    return op


def _overload_of(target: Any) -> OpOverload | None:
    """The dispatcher's op behind a target; an Edge op keeps it in `_op`."""
    if isinstance(target, OpOverload):
        return target
    if hasattr(target, "_schema"):
        inner = getattr(target, "_op", None)
        if isinstance(inner, OpOverload):
            return inner
    return None


def op_of_overload(overload: OpOverload) -> Op:
    """The op of a registered overload."""
    name = str(overload)
    known = _BY_NAME.get(name)
    if known is not None and known.text == str(overload._schema):
        return known
    op = _BY_NAME[name] = _schema_op(overload._schema, {t.name for t in overload.tags}, overload.is_view)
    return op


def _made(name: str, make: Callable[[], Op]) -> Op:
    known = _BY_NAME.get(name)
    if known is None:
        known = _BY_NAME[name] = make()
    return known


def op_named(name: str) -> Op | None:
    """The op of that name if any graph or lookup has met it in this process."""
    return _BY_NAME.get(name)


def is_size_query(op: Op | None) -> bool:
    """Whether the op only reads a tensor's size, strides or offset."""
    return op is not None and op.base in _SIZE_QUERIES and op.style in ("aten", "method")


def is_assertion(op: Op | None) -> bool:
    """Whether the op only checks something and gives nothing on."""
    return op is not None and (op.base in _ASSERTIONS or op.base.startswith(_ASSERTION_PREFIXES))


_SIZE_QUERIES: Final = frozenset(
    {"sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "size", "stride", "storage_offset", "numel", "dim"}
)
_ASSERTIONS: Final = frozenset(
    {
        "_assert",
        "_assert_scalar",
        "_assert_async",
        "_assert_tensor_metadata",
        "_functional_assert_async",
        "_functional_assert_scalar",
        "_check",
        "_check_is_size",
        "_check_value",
        "_check_index",
        "_check_type",
        "_check_tensor_all",
    }
)
_ASSERTION_PREFIXES: Final = ("sym_constrain_range", "_functional_sym_constrain_range")


# --- schemas ---------------------------------------------------------------------------------------------------

_SCALARS: Final = {"number": "Scalar", "Stream": "Stream"}


def _type_text(type_: Any) -> str:
    """A JIT type in the words of a schema."""
    kind = type_.kind()
    if kind == "OptionalType":
        return _type_text(type_.getElementType()) + "?"
    if kind == "ListType":
        return _type_text(type_.getElementType()) + "[]"
    text = str(type_)
    return _SCALARS.get(text, text)


def _default(argument: Any) -> Any:
    value = argument.default_value
    return tuple(value) if isinstance(value, list) else value


def _schema_op(schema: Any, tags: Iterable[str], is_view: bool) -> Op:
    namespace, _, base = schema.name.rpartition("::")
    overload = schema.overload_name or "default"
    tags = frozenset(tags)
    returns = tuple(_type_text(r.real_type) for r in schema.returns)
    writes = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
    aliased = tuple(a.name for a in schema.arguments if a.alias_info is not None)
    name = f"{namespace}.{base}.{overload}"
    is_random = "nondeterministic_seeded" in tags
    effects = bool(writes) or is_random or not returns or base in _ASSERTIONS or base.startswith(_ASSERTION_PREFIXES)
    return Op(
        name=name,
        namespace=namespace,
        base=base,
        overload=overload,
        style="aten",
        schema=schema,
        arguments=tuple(
            OpArgument(a.name, _type_text(a.real_type), a.kwarg_only, a.has_default_value(), _default(a))
            for a in schema.arguments
        ),
        returns=returns,
        is_view=(is_view and not writes) or _is_copy_of_view(namespace, base, overload),
        is_mutable=bool(writes),
        is_random=is_random,
        has_effects=effects,
        tags=tags,
        writes=writes,
        aliases=aliased if any(r.alias_info is not None for r in schema.returns) else (),
        text=str(schema),
    )


def _is_copy_of_view(namespace: str, base: str, overload: str) -> bool:
    if not base.endswith("_copy"):
        return False
    original = _schemas(namespace, base.removesuffix("_copy")).get(overload)
    return original is not None and _is_view_schema(original)


def _is_view_schema(schema: Any) -> bool:
    """Whether the outputs share memory with an argument that is not written."""
    infos = [a.alias_info for a in schema.arguments if a.alias_info is not None]
    return bool(infos) and not any(i.is_write for i in infos)


def _schemas(namespace: str, base: str) -> dict[str, Any]:
    """The registered overloads of an op by overload name ("default" for the one without)."""
    found = torch._C._jit_get_schemas_for_operator(f"{namespace}::{base}")
    return {schema.overload_name or "default": schema for schema in found}


def _is_functional(schema: Any) -> bool:
    return not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


def parse_schema(text: str) -> Op:
    """The op that a schema's text declares, `ns::op.overload(Tensor a, int b=1) -> Tensor`.

    Raises ValueError with one sentence where the text is no schema or has no namespace.
    """
    try:
        schema = torch._C.parse_schema(text)
    except RuntimeError as error:
        raise ValueError(f"not a schema: {_first_sentence(error)}") from None
    if "::" not in schema.name:
        raise ValueError(f"the op {schema.name!r} has no namespace: write `library::{schema.name}(…)`")
    return _schema_op(schema, (), _is_view_schema(schema) and any(r.alias_info for r in schema.returns))


def _first_sentence(error: Exception) -> str:
    return next((line.strip().rstrip(":") for line in str(error).splitlines() if line.strip()), "unreadable")


def schema_difference(declared: Op, real: Op) -> str | None:
    """In what a declared schema differs from the registered one, as a sentence; None where it doesn't."""
    ours, theirs = declared.arguments, real.arguments
    for a, b in zip(ours, theirs, strict=False):
        if a.name != b.name:
            return f"argument {a.name} is called {b.name} in the registered {real.text}"
        if _loose(a.type) != _loose(b.type):
            return f"argument {a.name} is {a.type}, and {b.type} in the registered {real.text}"
        if a.kwarg_only != b.kwarg_only:
            return f"argument {a.name} is {'' if b.kwarg_only else 'not '}keyword-only in the registered {real.text}"
        if (a.has_default, a.default) != (b.has_default, b.default):
            return f"argument {a.name} has another default in the registered {real.text}"
    if len(ours) != len(theirs):
        return f"it has {len(ours)} arguments, and {len(theirs)} in the registered {real.text}"
    if declared.returns != real.returns:
        return f"it returns {', '.join(declared.returns)}, and {', '.join(real.returns)} in the registered {real.text}"
    return None


def _loose(type_: str) -> str:
    return type_.replace("SymInt", "int")


# --- ops without a schema --------------------------------------------------------------------------------------


_PUBLIC_MODULES: Final = {
    "_operator.": "operator.",
    "torch._C._nn.": "torch.nn.functional.",
    "torch.functional.": "torch.",
}


def _function_name(target: Any) -> str:
    try:
        name = _get_qualified_name(target)
    except Exception:  # an object that was called, without a name of its own
        name = f"{type(target).__module__}.{type(target).__qualname__}"
    for private, public in _PUBLIC_MODULES.items():
        if name.startswith(private):
            name = public + name.removeprefix(private)
    return name if "." in name else f"builtins.{name}"


def _split(name: str) -> tuple[str, str]:
    namespace, _, base = name.rpartition(".")
    return namespace, base


# Operators of Python that change their first operand.
_IN_PLACE_OPERATORS: Final = frozenset(name for name in dir(operator) if name.startswith("i")) - {
    "index",
    "indexOf",
    "inv",
    "invert",
    "is_",
    "is_not",
    "itemgetter",
}


def _function_op(target: Any) -> Op:
    name = _function_name(target)
    namespace, base = _split(name)
    mutable = namespace == "operator" and (base in _IN_PLACE_OPERATORS or base in ("setitem", "delitem"))
    mutable = mutable or (namespace.startswith("torch") and _is_in_place_name(base))
    arguments = _signature_of(target, base)
    returns = _aten_signature(base)[1] if namespace.startswith("torch") else ()
    random = _is_random_base(base)
    return Op(
        name=name,
        namespace=namespace,
        base=base,
        overload="",
        style="function",
        arguments=arguments,
        returns=returns,
        is_mutable=mutable,
        is_random=random,
        has_effects=mutable or random or target in _side_effectful_functions or base in _ASSERTIONS,
        writes=(arguments[0].name,) if mutable and arguments else (),
        aliases=(arguments[0].name,) if mutable and arguments else (),
    )


def _is_in_place_name(base: str) -> bool:
    return base.endswith("_") and not base.startswith("_")


_RANDOM_WORDS: Final = ("dropout", "rand", "bernoulli", "multinomial", "normal_", "uniform_", "rrelu")


def _is_random_base(base: str) -> bool:
    return base.startswith(_RANDOM_WORDS) or base.endswith("dropout")


def _signature_of(target: Any, base: str) -> tuple[OpArgument, ...]:
    """Arguments by Python's signature where there is one, else those of the aten op of the same name."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return _aten_signature(base)[0]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in signature.parameters.values()):
        return _aten_signature(base)[0]
    return tuple(_parameter(p) for p in signature.parameters.values() if p.name != "self")


def _aten_signature(base: str) -> tuple[tuple[OpArgument, ...], tuple[str, ...]]:
    overloads = _schemas("aten", base)
    preferred = [overloads[o] for o in ("default", "Tensor", *overloads) if o in overloads]
    if not preferred:
        return (), ()
    op = _schema_op(preferred[0], (), False)
    return op.arguments, op.returns


def _parameter(parameter: inspect.Parameter) -> OpArgument:
    has_default = parameter.default is not inspect.Parameter.empty
    default = parameter.default if has_default else None
    return OpArgument(
        parameter.name,
        "Any",
        parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        has_default,
        tuple(default) if isinstance(default, list) else default,
    )


def _method_op(method: str) -> Op:
    arguments, returns = _aten_signature(method)
    mutable = _is_in_place_name(method) or method == "__setitem__"
    random = _is_random_base(method)
    first = (arguments[0].name,) if arguments else ("self",)
    return Op(
        name=f"Tensor.{method}",
        namespace="Tensor",
        base=method,
        overload="",
        style="method",
        arguments=arguments,
        returns=returns,
        is_mutable=mutable,
        is_random=random,
        has_effects=mutable or random,
        writes=first if mutable else (),
        aliases=first if mutable else (),
    )


def _module_op_of(node: fx.Node) -> Op:
    owner = node.graph.owning_module
    try:
        module: Any = None if owner is None else owner.get_submodule(str(node.target))
    except AttributeError:
        module = None
    if module is None:
        return _made("nn.Module", lambda: _module_op(torch.nn.Module))
    kind = type(module)
    return _BY_TARGET.get(kind) or _BY_TARGET.setdefault(kind, _made(_class_name(kind), lambda: _module_op(kind)))


def _class_name(kind: type) -> str:
    if kind.__module__.startswith("torch.nn."):
        return f"nn.{kind.__name__}"
    return f"{kind.__module__}.{kind.__qualname__}"


def _module_op(kind: type[torch.nn.Module]) -> Op:
    name = _class_name(kind)
    namespace, base = _split(name)
    try:
        parameters = list(inspect.signature(kind.forward).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    random = "Dropout" in base or base == "RReLU"
    # Batch norms and the like keep running statistics; what a module of someone else's does is not known here.
    effects = random or namespace != "nn" or "BatchNorm" in base or "InstanceNorm" in base
    return Op(
        name=name,
        namespace=namespace,
        base=base,
        overload="",
        style="module",
        arguments=tuple(_parameter(p) for p in named),
        is_random=random,
        has_effects=effects,
    )


# Argument names of the higher-order ops that graphs contain, where their Python signature hides them.
_HIGHER_ORDER_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cond": ("pred", "true_fn", "false_fn", "operands"),
    "switch": ("index", "branches", "operands"),
    "while_loop": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "while_loop_stack_output": ("cond_fn", "body_fn", "carried_inputs", "additional_inputs"),
    "scan": ("combine_fn", "init", "xs", "additional_inputs"),
    "associative_scan": ("combine_fn", "xs", "additional_inputs"),
    "map_impl": ("f", "xs", "pos_args"),
    "invoke_subgraph": ("subgraph", "identifier"),
    "wrap_with_set_grad_enabled": ("enable_grad", "wrapped_func"),
    "wrap_with_autocast": ("device_type", "dtype", "enabled", "cache_enabled", "wrapped_func"),
    "wrap": ("wrapped_func",),
    "tag_activation_checkpoint": ("function",),
    "wrap_activation_checkpoint": ("function",),
    "hints_wrapper": ("body_fn", "operands"),
    "with_effects": ("token", "op"),
    "executorch_call_delegate": ("lowered_module",),
    "call_torchbind": ("obj", "method"),
}
_EFFECTFUL_HIGHER_ORDER: Final = frozenset(
    {"with_effects", "print", "call_torchbind", "run_and_save_rng_state", "run_with_rng_state", "_export_tracepoint"}
)


def _higher_order_name(target: Any) -> str:
    return str(target.name())


def _higher_order_op(target: Any) -> Op:
    base = _higher_order_name(target)
    names = _HIGHER_ORDER_ARGUMENTS.get(base)
    if names is None:
        try:
            parameters = list(inspect.signature(type(target).__call__).parameters.values())[1:]
        except (TypeError, ValueError):
            parameters = []
        names = tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    return Op(
        name=f"higher_order.{base}",
        namespace="higher_order",
        base=base,
        overload="",
        style="higher_order",
        arguments=tuple(OpArgument(n, "Any") for n in names),
        is_random=base in ("run_and_save_rng_state", "run_with_rng_state"),
        has_effects=base in _EFFECTFUL_HIGHER_ORDER,
    )


# --- names in a rules file -------------------------------------------------------------------------------------


def resolve_op(name: str, declared: Mapping[str, OpSchemaDecl] | None = None) -> frozenset[str]:
    """The names of the ops that `name` stands for in a rules file.

    `aten.view.default` is that op and its functional `*_copy` twin, `aten.view_copy.default` the twin alone,
    `aten.add` every functional overload of it (with their twins). `declared` holds the ops of `declare` statements
    by name. Raises `UnknownOp`.
    """
    declared = declared or {}
    if name in declared:
        return frozenset({name}) | _declared_twin(name, declared)
    overloads = {n for n in declared if n.rpartition(".")[0] == name and not declared[n].is_mutable}
    parts = name.split(".")
    if len(parts) == 2:
        schemas = _for_tensors(_schemas(parts[0], parts[1]))
        functional = [o for o, s in schemas.items() if _is_functional(s)]
        found = {f"{name}.{o}" for o in functional or schemas} | overloads
        if found:
            return frozenset(found).union(*(_twin_set(n) for n in found))
        if parts[0] == "higher_order" and parts[1] in _higher_order():
            return frozenset({name})
    elif len(parts) == 3 and parts[2] in _schemas(parts[0], parts[1]):
        return frozenset({name}) | _twin_set(name)
    if overloads:
        return frozenset(overloads)
    target = _python_op(parts)
    if target is not None:
        return frozenset({name if parts[0] == "Tensor" else python_name(target)})
    raise UnknownOp(name, *_nearest(name, parts, declared))


def _for_tensors(schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the overloads for Python numbers and strings that only TorchScript has; all if there are no others."""
    kept = {o: s for o, s in schemas.items() if "Tensor" in str(s) or "SymInt" in str(s)}
    return kept or schemas


def twin_of(name: str) -> str | None:
    """The functional `*_copy` twin of a view op, by name; None where it is no view or has none."""
    return next(iter(_twin_set(name)), None)


def _twin_set(name: str) -> frozenset[str]:
    namespace, base, overload = name.split(".")
    original = _schemas(namespace, base).get(overload)
    if original is None or base.endswith("_copy") or not _is_view_schema(original):
        return frozenset()
    twin = _schemas(namespace, f"{base}_copy").get(overload)
    if twin is None or [a.name for a in twin.arguments] != [a.name for a in original.arguments]:
        return frozenset()
    return frozenset({f"{namespace}.{base}_copy.{overload}"})


def _declared_twin(name: str, declared: Mapping[str, OpSchemaDecl]) -> frozenset[str]:
    op = declared[name]
    twin = f"{op.namespace}.{op.base}_copy.{op.overload}"
    return frozenset({twin}) if op.is_view and twin in declared else frozenset()


def _higher_order() -> Mapping[str, Any]:
    return torch._ops._higher_order_ops


def schema_of(name: str, declared: Mapping[str, OpSchemaDecl] | None = None) -> Op:
    """The op of one concrete name, for checking arguments. A declared op is judged by its text. Raises `UnknownOp`."""
    if declared and name in declared:
        return declared[name]
    parts = name.split(".")
    if len(parts) == 3:
        schema = _schemas(parts[0], parts[1]).get(parts[2])
        if schema is not None:
            return _registered(name, parts, schema)
    if len(parts) == 2 and parts[0] == "higher_order" and parts[1] in _higher_order():
        return _made(name, lambda: _higher_order_op(_higher_order()[parts[1]]))
    target = _python_op(parts)
    if target is None:
        raise UnknownOp(name, *_nearest(name, parts, declared or {}))
    if parts[0] == "Tensor":
        return _made(name, lambda: _method_op(parts[1]))
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        return _made(_class_name(target), lambda: _module_op(target))
    return _made(_function_name(target), lambda: _function_op(target))


def _registered(name: str, parts: Sequence[str], schema: Any) -> Op:
    """Through `torch.ops` where the dispatcher has it (tags are kept there); JIT-only ops by their schema alone."""
    overload = getattr(getattr(getattr(torch.ops, parts[0]), parts[1], None), parts[2], None)
    if isinstance(overload, OpOverload):
        return op_of_overload(overload)
    return _made(name, lambda: _schema_op(schema, (), _is_view_schema(schema)))


def python_name(target: Any) -> str:
    """The name that a graph's call of `target` has: `torch.nn.Linear` is `nn.Linear`."""
    return _class_name(target) if isinstance(target, type) else _function_name(target)


def _python_op(parts: Sequence[str]) -> Any | None:
    """A function, method or module class by its dotted name, in what is imported already; None where there is none."""
    if len(parts) < 2:
        return None
    if parts[0] == "Tensor":
        return getattr(torch.Tensor, parts[1], None) if len(parts) == 2 else None
    start: Any = torch.nn if parts[0] == "nn" else sys.modules.get(parts[0])
    for part in parts[1:]:
        # In the dictionary first: an attribute made on demand would import something.
        start = getattr(start, "__dict__", {}).get(part)
        if start is None:
            return None
    return start if callable(start) else None


def _nearest(name: str, parts: Sequence[str], declared: Mapping[str, OpSchemaDecl]) -> tuple[list[str], str]:
    """Real names like a wrong one, and what is wrong about it."""
    if len(parts) == 3:
        overloads = _for_tensors(_schemas(parts[0], parts[1]))
        if overloads:
            near = difflib.get_close_matches(parts[2], overloads, 3, 0.6)
            ordered = sorted(overloads, key=lambda o: (o not in near, not _is_functional(overloads[o]), o))
            return [f"{parts[0]}.{parts[1]}.{o}" for o in ordered], f"{parts[0]}.{parts[1]} has no overload {parts[2]}"
    pool = _names_like(parts) | set(declared)
    namespaces = {schema.name.split("::")[0] for schema in torch._C._jit_get_all_schemas()}
    hint = ""
    if len(parts) >= 2 and parts[0] not in namespaces | {"higher_order", "Tensor", "nn"} | set(sys.modules):
        hint = f"the library {parts[0]} is not loaded; `declare` its schema to speak of it without"
        pool |= {".".join([n, *parts[1:]]) for n in difflib.get_close_matches(parts[0], namespaces, 2, 0.7)}
    elif len(parts) == 1:
        hint = "an op's name starts with its library, as in aten.relu.default"
    return _closest(name, parts, pool), hint


def _names_like(parts: Sequence[str]) -> set[str]:
    """Names of the same namespace, with the overload that a three-part name asks for where there is one."""
    namespace = parts[0]
    if namespace == "higher_order":
        return {f"higher_order.{n}" for n in _higher_order()}
    if namespace == "Tensor":
        return {f"Tensor.{n}" for n in dir(torch.Tensor) if not n.startswith("__")}
    if namespace == "nn":
        return {f"nn.{n}" for n, c in vars(torch.nn).items() if isinstance(c, type)}
    if namespace in ("torch", "operator") and len(parts) > 1:
        module = sys.modules.get(".".join(parts[:-1]))
        return {".".join([*parts[:-1], n]) for n in vars(module or torch) if not n.startswith("_")}
    names: set[str] = set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, base = schema.name.partition("::")
        if len(parts) == 1:
            names.add(f"{space}.{base}")
        elif space == namespace and _is_functional(schema):
            names.add(f"{space}.{base}" + (f".{schema.overload_name or 'default'}" if len(parts) > 2 else ""))
    return names


def _closest(name: str, parts: Sequence[str], pool: set[str]) -> list[str]:
    """The three best, compared by the op's own name: the namespace is common and would drown the difference."""
    if len(parts) == 1:
        by_base: dict[str, str] = {}
        for full in sorted(pool):
            if full.startswith("aten.") or full.split(".")[1] not in by_base:
                by_base[full.split(".")[1]] = full
        return [by_base[b] for b in difflib.get_close_matches(name, by_base, 3, 0.6)]
    tails = {full.partition(".")[2]: full for full in sorted(pool)}
    wanted = name.partition(".")[2]
    found = [tails[t] for t in difflib.get_close_matches(wanted, tails, 3, 0.6)]
    same = [full for full in sorted(pool) if full.partition(".")[2] == wanted]
    return list(dict.fromkeys([*same, *found]))[:3]


# --- operands in any order -------------------------------------------------------------------------------------

COMMUTATIVE: Final = frozenset(
    {
        "add",
        "mul",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "eq",
        "ne",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "gcd",
        "lcm",
    }
)
"""Base names of ops whose first two operands may change places (`add` where `alpha` is 1)."""

_COMMUTATIVE_OPERATORS: Final = frozenset({"add", "mul", "eq", "ne", "and_", "or_", "xor"})


def is_commutative(call: Any) -> Kleene:
    """Whether the first two arguments of `call` (a `Value` of an op) may change places."""
    op: Op | None = call.op
    if op is None:
        return False
    if op.namespace == "operator":
        return op.base in _COMMUTATIVE_OPERATORS
    if op.base not in COMMUTATIVE:
        return False
    if op.base != "add":
        return True
    if op.argument("alpha") is None:
        return True
    return k_compare("==", call.arguments.get("alpha", Unknown("no alpha")), 1)
