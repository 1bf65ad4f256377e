"""A witness: a call or a small graph drawn from a box, that PyTorch's kernels for fake tensors accept."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx as fx
from attrs import define, field, frozen
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.node import map_aggregate

from apportion.engine.lint.domains import Choice, Domain, Numbers, shown
from apportion.engine.lint.label import DTYPES, prefer
from apportion.engine.lint.opfacts import KEPT
from apportion.engine.lint.skeleton import Skeleton
from apportion.engine.lint.symbols import mark_path
from apportion.engine.lint.terms import Box
from apportion.engine.ops import Op
from apportion.engine.preserve import target_named

__all__ = ["Drawing", "Refused", "Unavailable", "draw"]

_RANKS = ((4, 2, 3, 1, 5, 0), (2, 3, 4, 1, 5, 0), (1, 2, 3, 4, 5, 0), (3, 4, 2, 1, 5, 0))
_SIZES = ((8, 4, 16, 1, 2, 3), (1, 2, 8), (4, 8, 2, 3), (2, 3, 4), (3, 5, 7), (16, 32, 64))


@contextmanager
def _silent() -> Iterator[None]:
    """Kernels that refuse a call log it; here that is an answer like any other."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)


class Refused(Exception):
    """No graph can be made of this box, or PyTorch refuses it."""


class Unavailable(Refused):
    """The op is of a library that is not loaded; no other values help."""


@frozen(eq=False)
class Drawing:
    """A graph of fake tensors, where each place of the skeleton is in it, its options, and how it reads."""

    module: fx.GraphModule
    nodes: Mapping[str, fx.Node]
    options: Mapping[str, Any]
    text: str


def draw(
    skeleton: Skeleton, box: Box, options: Mapping[str, Any], metas: Iterable[str], turn: int = 0,
    fill: int | None = None,
) -> Drawing:
    """A graph for a box; its constants have data with `fill`, all of that number. Raises Refused."""
    artist = _Artist(skeleton, box, metas, turn, fill)
    roots = [place for place in skeleton.ops if not any(place in kids for kids in _children(skeleton).values())]
    for place in roots or list(skeleton.ops):
        artist.node(place)
    return artist.finish(_options(box, options))


def _filled(fake: torch.Tensor, value: int) -> torch.Tensor:
    """A tensor of the same kind with data; small, and of a number that its dtype has. Raises Refused."""
    if fake.numel() > 2**20 or value < 0 and not (fake.dtype.is_signed and fake.dtype != torch.bool):
        raise Refused("constants with such data")
    return torch.full(tuple(fake.shape), value, dtype=fake.dtype)


def _children(skeleton: Skeleton) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node, children in skeleton.children.items():
        for name in children:
            place = skeleton.find(f"{node}.{name}")
            producer = skeleton.elements.get(place, (place, 0))[0]
            found.setdefault(node, set()).add(skeleton.find(producer))
            found[node].update(p for p in skeleton.ops if p.startswith(f"{place}.["))
    return found


def _options(box: Box, current: Mapping[str, Any]) -> dict[str, Any]:
    """The options with values in the box, those of the load where they fit."""
    found = dict(current)
    for var, domain in box.domains.items():
        if not var.startswith("option."):
            continue
        name, _, what = var.removeprefix("option.").partition("/")
        if what.startswith("has "):
            choice = what.removeprefix("has ")
            wanted = prefer(domain, [choice in found[name]])
            found[name] = frozenset(found[name] | {choice} if wanted else found[name] - {choice})
        elif name in found:
            found[name] = prefer(domain, [found[name]])
    return found


@define(eq=False)
class _Artist:
    """Draws one graph."""

    skeleton: Skeleton
    box: Box
    metas: Iterable[str]
    turn: int
    fill: int | None = None
    graph: fx.Graph = field(factory=fx.Graph)
    root: torch.nn.Module = field(factory=torch.nn.Module)
    made: dict[str, Any] = field(factory=dict)
    lines: list[str] = field(factory=list)
    texts: dict[str, str] = field(factory=dict)
    mode: FakeTensorMode = field(init=False)
    written: list[fx.Node] = field(factory=list)
    inputs: int = 0
    symbols: int = 0
    first: Any = None

    @mode.default
    def _mode(self) -> FakeTensorMode:
        return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=False)

    # --- choosing --------------------------------------------------------------------------------------------------

    def domain(self, var: str) -> Domain:
        return self.box.get(var)

    def pick(self, var: str, wanted: list[Any]) -> Any:
        """A value of a path, the same whenever it is asked."""
        domain = self.domain(var)
        value = prefer(domain, wanted)
        if value is None and not domain.has(None):
            if isinstance(domain, Choice) and domain.but and var.endswith(":str"):
                value = next(t for t in ("a", "b", "c", "d") if domain.has(t))
            else:
                raise Refused(f"no value for {var}")
        if isinstance(domain, Numbers):
            self.box.domains[var] = Numbers.point(value, whole=domain.whole)
        elif not (value is None and domain.but):
            self.box.domains[var] = Choice(frozenset({value}))
        return value

    def is_node(self, place: str) -> bool:
        return place in self.skeleton.ops

    # --- nodes -----------------------------------------------------------------------------------------------------

    def node(self, place: str) -> fx.Node:
        """The call at a place, with everything it needs before it."""
        place = self.skeleton.find(place)
        if place in self.made:
            return self.made[place]  # type: ignore[no-any-return]
        self.made[place] = None
        if self.domain(f"{place}/op").single == ("higher_order.cond",):
            return self.branching(place)
        target, op = self.choose(place)
        self.hand_down(place, op)
        args, kwargs, texts = [], {}, []
        for argument in op.arguments:
            if argument.kwarg_only and not self.asked(place, argument.name) and argument.has_default:
                continue
            value, text = self.argument(place, op, argument.name, argument.type, argument)
            if argument.kwarg_only:
                kwargs[argument.name] = value
                texts.append(f"{argument.name}={text}")
            else:
                args.append(value)
                texts.append(text)
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name=self.name(place))
        node.meta["val"] = self.run(target, args, kwargs)
        self.mark(place, node)
        self.made[place] = node
        name = f"n{len(self.lines)}"
        self.texts[place] = name
        self.lines.append(f"{op.name}({', '.join(texts)})")
        return node

    def name(self, place: str) -> str | None:
        """The name that is asked for."""
        asked = self.domain(f"{place}/name").single
        return str(asked[0]) if asked and str(asked[0]).isidentifier() else None

    def hand_down(self, place: str, op: Op) -> None:
        """What is asked of a result that the op keeps from its first tensor is asked of that. Raises Refused."""
        if place in self.skeleton.ops or not op.arguments:
            return  # the paths of those are those of the tensor already
        child = self.skeleton.find(f"{place}.{op.arguments[0].name}")
        for attribute, bases in KEPT.items():
            if op.namespace != "aten" or op.base not in bases:
                continue
            for var in [v for v in self.box.domains if v.startswith((f"{place}/{attribute}",))]:
                if self.box.narrow(f"{child}{var[len(place):]}", self.box.domains[var]) is None:
                    raise Refused("what an op keeps")

    def branching(self, place: str) -> fx.Node:
        """A `cond` of two branches that hand on their operand."""
        predicate, operand = (self.graph.placeholder(name) for name in ("predicate", "operand"))
        with self.mode:
            predicate.meta["val"], operand.meta["val"] = torch.empty((), dtype=torch.bool), torch.empty(2, 2)
        branches = []
        for name in ("true_branch", "false_branch"):
            graph = fx.Graph()
            given = graph.placeholder("given")
            given.meta["val"] = operand.meta["val"]
            graph.output((given,))
            setattr(self.root, name, fx.GraphModule(torch.nn.Module(), graph))
            branches.append(self.graph.get_attr(name))
        node = self.graph.call_function(torch.ops.higher_order.cond, (predicate, *branches, (operand,)))
        node.meta["val"] = (operand.meta["val"],)
        self.mark(place, node)
        self.made[place], self.texts[place] = node, f"n{len(self.lines)}"
        self.lines.append("higher_order.cond(bool[], float32[2,2] as it is, float32[2,2] as it is)")
        return node

    def asked(self, place: str, name: str) -> bool:
        prefix = self.skeleton.find(f"{place}.{name}")
        return any(var.startswith((f"{prefix}/", f"{prefix}[")) for var in self.box.domains)

    def choose(self, place: str) -> tuple[OpOverload, Op]:
        domain = self.domain(f"{place}/op")
        if not isinstance(domain, Choice) or domain.but:
            names = ["aten.relu.default", "aten.neg.default", "aten.add.Tensor"]
            names = [name for name in names if domain.has(name)]
        else:
            names = sorted(str(n) for n in domain.values)
        if self.turn and names:
            shift = self.turn % len(names)
            names = names[shift:] + names[:shift]
        names.sort(key=lambda n: "_copy" in n)
        for name in names:
            target, op = target_named(name), self.skeleton.schema(name)
            if target is not None and op is not None:
                self.box.domains[f"{place}/op"] = Choice(frozenset({name}))
                return target, op
        raise Unavailable(f"the library of {', '.join(names[:2])} is not loaded")

    def run(self, target: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> Any:
        def value(item: Any) -> Any:
            return item.meta["val"] if isinstance(item, fx.Node) else item

        try:
            with _silent(), self.mode:
                return target(*map_aggregate(tuple(args), value), **map_aggregate(kwargs, value))
        except Exception as error:  # whatever PyTorch's kernel raises means that it refuses the call
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise Refused(f"PyTorch refuses {target}: {first}") from None

    def mark(self, place: str, node: fx.Node) -> None:
        for path in self.metas:
            vars_ = [v for v in self.box.domains if v.startswith(f"{mark_path(place, path)}:")]
            for var in vars_:
                spot: Any = node.meta
                *outer, last = path.split(".")
                for part in outer:
                    spot = spot.setdefault(part, {})
                spot[last] = self.pick(var, [1] if isinstance(self.domain(var), Numbers) else [True])
        module = self.box.domains.get(f"{place}/module")
        if module is not None and module.single:
            node.meta["nn_module_stack"] = {"m": (str(module.single[0]), "torch.nn.Module")}

    # --- values ----------------------------------------------------------------------------------------------------

    def value(self, place: str) -> tuple[Any, str]:
        """The node of a value, and how the text speaks of it."""
        place = self.skeleton.find(place)
        if place in self.skeleton.elements:
            return self.element(place)
        if place in self.made:
            made = self.made[place]
            if made is None:
                raise Refused("a value that needs itself")
            return made, self.texts[place]
        if self.is_node(place) or self.wants_node(place):
            made = self.node(place)
            return self.one_of(place, made)
        return self.tensor(place)

    def one_of(self, place: str, made: fx.Node) -> tuple[Any, str]:
        """The output of a call that is meant where only its op is asked for: zero points come second."""
        whole = made.meta["val"]
        if not isinstance(whole, (tuple, list)):
            return made, self.texts[place]
        index = 1 if "zero_point" in place.rpartition(".")[2] and len(whole) > 1 else 0
        part = self.graph.call_function(operator.getitem, (made, index))
        part.meta["val"] = whole[index]
        return part, f"{self.texts[place]}[{index}]"

    def wants_node(self, place: str) -> bool:
        origin = self.domain(f"{place}/origin")
        return origin.single == ("node",)

    def element(self, place: str) -> tuple[Any, str]:
        if place in self.made:
            return self.made[place], self.texts[place]
        owner, index = self.skeleton.elements[place]
        node = self.node(owner)
        whole = node.meta["val"]
        if not isinstance(whole, (tuple, list)) or index >= len(whole):
            raise Refused("that op has no such output")
        made = self.graph.call_function(operator.getitem, (node, index))
        made.meta["val"] = whole[index]
        self.made[place] = made
        self.texts[place] = f"{self.texts[self.skeleton.find(owner)]}[{index}]"
        return made, self.texts[place]

    def tensor(self, place: str) -> tuple[Any, str]:
        dtypes, usual = self.habit(place)
        dtype = self.pick(f"{place}/dtype", [*dtypes, self._turned_dtype(place), *DTYPES])
        rank = int(self.pick(f"{place}/rank", self.ranks(place) if usual is None else [len(usual)]))
        sizes_of = [self.sizes(place, i, rank) for i in range(rank)] if usual is None or len(usual) != rank else [
            [size] for size in usual]
        varying = next((i for i in range(rank) if not self.domain(f"{place}/shape[{i}]").single), 0)
        shape = [int(self.pick(f"{place}/shape[{i}]", sizes_of[i])) for i in range(rank)]
        if self.first is None:
            self.first = (dtype, shape)
        unbacked = self.domain(f"{place}/unbacked").single == (True,)
        symbolic = unbacked or self.domain(f"{place}/symbolic").single == (True,)
        if math.prod(max(size, 1) for size in shape) > 2**48:
            raise Refused("a tensor too large to have an address")
        text_shape = [str(s) for s in shape]
        sizes: list[Any] = list(shape)
        if symbolic and rank:
            sizes[varying], text_shape[varying] = self.symbol(shape[varying], unbacked), "u" if unbacked else "s"
        with self.mode:
            fake = self.laid_out(place, sizes, dtype)
            if self.domain(f"{place}/channels_last").single == (True,) and rank == 4:
                fake = fake.to(memory_format=torch.channels_last)
            elif self.domain(f"{place}/contiguous").single == (False,) and rank >= 2:
                fake = fake.transpose(0, 1).contiguous().transpose(0, 1) if shape[0] > 1 else fake
        origin = str(self.pick(f"{place}/origin", ["user", "attribute", "constant", "parameter", "buffer"]))
        self.inputs += 1
        word = ""
        if origin == "user":
            made = self.graph.placeholder(self.name(place) or f"input_{self.inputs}")
        else:
            made, word = self.state(origin, fake), "constant "
        made.meta["val"] = fake
        if origin == "mutable_buffer":
            word = "a buffer that is written, "
            self.written.append(made)
        self.mark(place, made)
        self.made[place] = made
        self.texts[place] = f"{word}{shown(dtype)}[{','.join(text_shape)}]"
        return made, self.texts[place]

    def laid_out(self, place: str, sizes: list[Any], dtype: torch.dtype) -> torch.Tensor:
        """A fake tensor with the strides, the order of dims and the offset that are asked for."""
        asked = [var for var in self.box.domains if var.startswith((f"{place}/strides[", f"{place}/dim_order["))]
        if not asked and f"{place}/storage_offset" not in self.box.domains:
            return torch.empty(sizes, dtype=dtype, device="cpu")
        order = [int(self.pick(f"{place}/dim_order[{i}]", [i])) for i in range(len(sizes))]
        if sorted(order) != list(range(len(sizes))):
            raise Refused("no order of dims")
        strides, step = [0] * len(sizes), 1
        for dim in reversed(order):
            strides[dim] = int(self.pick(f"{place}/strides[{dim}]", [step]))
            step = strides[dim] * max(sizes[dim], 1)
        offset = int(self.pick(f"{place}/storage_offset", [0]))
        span = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
        return torch.empty(max(span, 0), dtype=dtype, device="cpu").as_strided(sizes, strides, offset)

    def habit(self, place: str) -> tuple[list[Any], list[int] | None]:
        """The dtypes and the shape that a tensor has as a rule where quantization uses it."""
        node, _, argument = place.rpartition(".")
        names = self.domain(f"{node}/op")
        name = str(names.single[0]) if isinstance(names, Choice) and names.single else ""
        if "quantize" not in name:
            return [], None
        if argument == "input":
            return [torch.int8 if "dequantize" in name else torch.float32], None
        source = self.made.get(self.skeleton.find(f"{node}.input"))
        if "scale" not in argument and "zero_point" not in argument or not isinstance(source, fx.Node):
            return [], None
        return [torch.float32 if "scale" in argument else torch.int64], self.blocks(node, name, source)

    def blocks(self, node: str, name: str, source: fx.Node) -> list[int] | None:
        """The shape of the quantization parameters of a tensor."""
        shape = list(source.meta["val"].shape)
        if not all(isinstance(size, int) for size in shape):
            return None
        if "per_channel_group" in name and len(shape) == 2:
            return [shape[0], max(shape[1] // 8, 1)]
        if "per_channel" in name and shape:
            axis = self.domain(f"{self.skeleton.find(f'{node}.axis')}/value:int").single or (0,)
            return [shape[int(axis[0])]] if int(axis[0]) < len(shape) else None  # type: ignore[call-overload]
        return [*shape[:-1], 1] if "per_token" in name else [1]

    def state(self, origin: str, fake: torch.Tensor) -> fx.Node:
        """A stored tensor, with data where that is asked for."""
        name = f"constant_{self.inputs}"
        data = fake if self.fill is None else _filled(fake, self.fill)
        if origin == "parameter":
            self.root.register_parameter(name, torch.nn.Parameter(data, requires_grad=False))
        elif origin in ("buffer", "mutable_buffer"):
            self.root.register_buffer(name, data)
        else:
            setattr(self.root, name, data)
        return self.graph.get_attr(name)

    def _turned_dtype(self, place: str) -> Any:
        if self.first is not None:
            return self.first[0]
        return DTYPES[self.turn % 3 if self.turn else 0]

    def ranks(self, place: str) -> list[int]:
        found = list(_RANKS[self.turn % len(_RANKS)])
        return [len(self.first[1]), *found] if self.first is not None else found

    def sizes(self, place: str, index: int, rank: int) -> list[int]:
        found = list(_SIZES[self.turn % len(_SIZES)])
        weight = self.made.get(f"{place.removesuffix('.bias')}.weight") if place.endswith(".bias") else None
        sizes = getattr(weight.meta["val"], "shape", ()) if isinstance(weight, fx.Node) else ()
        if sizes and isinstance(sizes[0], int) and rank == 1:
            return [sizes[0], *found]
        if self.first is not None and len(self.first[1]) == rank:
            return [self.first[1][index], *found]
        return found

    def symbol(self, size: int, unbacked: bool = False) -> Any:
        from torch._dynamo.source import ConstantSource

        environment = self.mode.shape_env
        if environment is None:
            raise Refused("no symbols")
        if unbacked:
            return environment.create_unbacked_symint()
        self.symbols += 1
        symbol = environment.create_symbol(
            max(size, 2), source=ConstantSource(f"__s{self.symbols}"), dynamic_dim=DimDynamic.DYNAMIC,
            constraint_dim=None,
        )
        return environment.create_symintnode(symbol, hint=max(size, 2))

    # --- arguments -------------------------------------------------------------------------------------------------

    def argument(self, place: str, op: Op, name: str, type_: str, schema: Any) -> tuple[Any, str]:
        child = self.skeleton.find(f"{place}.{name}")
        base, optional = type_.rstrip("?"), type_.endswith("?")
        if optional and not self.there(child, base):
            return None, "none"
        if base == "Tensor":
            if self.domain(f"{child}/number").single == (True,):
                number = self.pick(f"{child}/value:number", [2.0, 1.0, 0.5])
                written = self.domain(f"{child}/written:str")
                value = int(number) if not written.has("float") or written.single == ("int",) else float(number)
                return value, str(value)
            return self.value(child)
        if base.endswith("]"):
            return self.list_argument(place, op, child, name, base, schema)
        wanted = [schema.default] if schema.has_default and schema.default is not None else []
        value = self.scalar(place, op, child, name, base, optional, wanted)
        return value, shown(value)

    def there(self, child: str, base: str) -> bool:
        if base in _PICKED:
            return True  # its own path says whether it is none
        domain = self.domain(f"{child}/present")
        if domain.single:
            return bool(domain.single[0])
        mentioned = self.skeleton.ops.keys() | self.box.domains.keys()
        wanted = any(key == child or key.startswith((f"{child}/", f"{child}[", f"{child}.")) for key in mentioned)
        return bool(self.pick(f"{child}/present", [wanted and f"{child}/present" not in self.box.domains]))

    def scalar(self, place: str, op: Op, child: str, name: str, base: str, optional: bool, wanted: list[Any]) -> Any:
        if base in ("int", "SymInt"):
            usual = [*wanted, *_INTEGERS.get(name, ()), *self.dims(place, op, name), 1, 0, 2]
            return int(self.pick(f"{child}/value:int", usual))
        if base in ("float", "Scalar", "number", "SymFloat"):
            value = self.pick(f"{child}/value:number", [*wanted, *_FLOATS.get(name, ()), 1.0, 0.0, 0.5])
            written = self.domain(f"{child}/written:str")
            as_int = base in ("Scalar", "number") and value == int(value) and written.has("int")
            return int(value) if as_int and written.single != ("float",) else float(value)
        mark = "?" if optional else ""
        if base in ("bool", "SymBool"):
            return self.pick(f"{child}/value:bool{mark}", [*wanted, *([None] if optional else []), False])
        if base == "ScalarType":
            return self.pick(f"{child}/value:dtype{mark}", [*([None] if optional else []), *self.dtypes(place, op)])
        value = self.pick(f"{child}/value:{base}", [None, *wanted, *_STRINGS.get(name, ())])
        return getattr(torch, value, value) if isinstance(value, str) and base in ("MemoryFormat", "Layout") else value

    def dims(self, place: str, op: Op, name: str) -> tuple[int, ...]:
        return (1, 0) if name in ("dim", "axis") else ()

    def dtypes(self, place: str, op: Op) -> list[Any]:
        if op.base.startswith("dequantize"):
            source = self.made.get(self.skeleton.find(f"{place}.input"))
            return [source.meta["val"].dtype] if isinstance(source, fx.Node) else []
        return [torch.int8] if "quantize" in op.base else list(DTYPES)

    def list_argument(self, place: str, op: Op, child: str, name: str, base: str, schema: Any) -> tuple[Any, str]:
        item = base[: base.rindex("[")]
        tensors = "Tensor" in item
        default = schema.default if schema.has_default and isinstance(schema.default, (tuple, list)) else None
        guess = self.guess(place, op, name, default)
        placed = [int(p[len(child) + 2:].split("]")[0]) for p in self.skeleton.ops if p.startswith(f"{child}.[")
                  and p[len(child) + 2:].split("]")[0].isdigit()]
        wanted = [max(placed) + 1] if placed else [len(guess)] if guess is not None and not tensors else [2, 1]
        length = int(self.pick(f"{child}/len:len", wanted))
        if name in ("size", "shape") and guess and len(guess) != length and length:
            guess = [1] * (length - 1) + [math.prod(guess)]
        values, texts = [], []
        for i in range(length):
            if tensors:
                value, text = self.value(f"{child}.[{i}]")
            else:
                kind = "int" if item in ("int", "SymInt") else "number"
                first = [guess[i]] if guess is not None and i < len(guess) else []
                value = self.pick(f"{child}[{i}]/value:{kind}", [*first, *_ITEMS.get(name, ()), 1, 0, 2])
                value = int(value) if kind == "int" else float(value)
                text = shown(value)
            values.append(value)
            texts.append(text)
        return values, f"[{','.join(texts)}]"

    def guess(self, place: str, op: Op, name: str, default: Any) -> list[int] | None:
        """What a list argument usually is, from the first tensor that is there already."""
        source = self.made.get(self.skeleton.find(f"{place}.{op.arguments[0].name}")) if op.arguments else None
        shape = list(source.meta["val"].shape) if isinstance(source, fx.Node) and isinstance(
            source.meta["val"], torch.Tensor) else None
        if name in ("size", "shape") and shape is not None:
            return shape
        if name == "dims" and shape is not None:
            return list(range(len(shape)))
        if name == "block_size" and shape is not None:
            return shape
        if name == "dim" and shape is not None and len(shape) >= 2:
            return [len(shape) - 2, len(shape) - 1]
        if default is not None:
            return list(default)
        return _LISTS.get(name)

    # --- the end ---------------------------------------------------------------------------------------------------

    def finish(self, options: Mapping[str, Any]) -> Drawing:
        """Users that the box asks for, and the output."""
        outputs: list[fx.Node] = []
        for buffer in self.written:
            self.graph.call_function(torch.ops.aten.zero_.default, (buffer,)).meta["val"] = buffer.meta["val"]
        for place, node in list(self.made.items()):
            if not isinstance(node, fx.Node):
                continue
            self.more_users(place, node)
            returned = self.domain(f"{place}/returned")
            unused = not node.users and node.op == "call_function" and returned.has(True)
            if unused or returned.single == (True,):
                outputs.append(node)
        self.graph.output(tuple(outputs))
        module = fx.GraphModule(self.root, self.graph)
        nodes = {place: node for place, node in self.made.items() if isinstance(node, fx.Node)}
        return Drawing(module, nodes, options, self.text())

    def more_users(self, place: str, node: fx.Node) -> None:
        domain = self.domain(f"{place}/users")
        fewest = domain.low if isinstance(domain, Numbers) else 0
        while len(node.users) < min(fewest, 16):
            used = node
            if isinstance(node.meta["val"], (tuple, list)):
                used = self.graph.call_function(operator.getitem, (node, 0))
                used.meta["val"] = node.meta["val"][0]
            extra = self.graph.call_function(torch.ops.aten.clone.default, (used,))
            extra.meta["val"] = self.run(torch.ops.aten.clone.default, [used], {})

    def text(self) -> str:
        """A single call, or a block of named ones."""
        calls = self.lines[0] if len(self.lines) == 1 else (
            "{ " + "  ".join(f"n{i} = {line}" for i, line in enumerate(self.lines)) + " }")
        return calls if self.fill is None else f"{calls} where the constants are all {self.fill}"


_PICKED = frozenset({"bool", "ScalarType", "str", "Device", "Layout", "MemoryFormat", "SymBool", "Generator"})
_INTEGERS: Mapping[str, tuple[int, ...]] = {
    "quant_min": (-128,), "quant_max": (127,), "zero_point": (0,), "groups": (1,), "group_size": (8,), "axis": (0,),
    "dim0": (0,), "dim1": (1,), "start_dim": (0,), "end_dim": (1,), "start": (0,), "end": (1,), "step": (1,),
}  # fmt: skip
_FLOATS: Mapping[str, tuple[float, ...]] = {"scale": (0.1,), "eps": (1e-5,), "momentum": (0.1,), "p": (0.5,)}
_STRINGS: Mapping[str, tuple[str, ...]] = {"mapping_type": ("ASYMMETRIC", "SYMMETRIC"), "approximate": ("none", "tanh")}
_ITEMS: Mapping[str, tuple[int, ...]] = {"padding": (0,), "output_padding": (0,), "pad": (0,)}
_LISTS: Mapping[str, list[int]] = {
    "pad": [0, 0, 0, 0], "kernel_size": [1, 1], "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1],
    "output_padding": [0, 0], "output_size": [1, 1],
}  # fmt: skip
