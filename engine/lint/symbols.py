"""Attributes, arguments, kinds, options and marks of places: each a path with its domain, or what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import torch
from attrs import frozen

from apportion.engine.compile.scope import Scope
from apportion.engine.facts.control_flow import CONTROL_FLOW
from apportion.engine.lint.domains import Choice, Numbers
from apportion.engine.lint.formulas import FALSE, TRUE, Formula, In, Poly, both, either, equal, negated
from apportion.engine.lint.opfacts import KEPT, kept_from
from apportion.engine.lint.skeleton import Symbol
from apportion.engine.lint.terms import (
    UNDEFINED,
    Blur,
    Cond,
    Fork,
    LongList,
    Num,
    Pick,
    Undefined,
    as_number,
    compare_terms,
    cond,
    key_of,
    open_condition,
)
from apportion.engine.ops import Op

if TYPE_CHECKING:
    from apportion.engine.lint.evaluate import Environment, Reader

__all__ = ["LONG", "NUMBER_PLACES", "OptionSet", "argument", "argument_term", "as_list", "attribute", "element", "kind",
           "list_of_places", "mark", "mark_path", "option", "plain", "present"]  # fmt: skip

LONG = 7
"""Lists and ranks up to here are told apart; of longer lists only the ends are looked at."""

NUMBER_PLACES = frozenset({"other", "exponent"})
"""Tensor arguments for which programs write numbers (`aten.mul.Tensor(x, 2)`)."""


@frozen
class OptionSet:
    """An option that is a set: whether it has each of its choices is a path of its own."""

    name: str
    choices: tuple[str, ...]

    def has(self, choice: str) -> Formula:
        """It has this choice."""
        return In(f"option.{self.name}/has {choice}", Choice(frozenset({True})))


def plain(reader: Reader, term: Any) -> Any:
    """A list symbol as a list, an option that is a set as it is; the rest unchanged."""
    if isinstance(term, Symbol) and term.kind == "list":
        return as_list(reader, term)
    if isinstance(term, Symbol) and term.kind == "number":
        return reader.number(f"{term.place}/value:number")
    return term


def present(reader: Reader, symbol: Symbol) -> bool:
    """Is an optional argument there? Forks where that is open."""
    if symbol.kind != "tensor?":
        return True
    var = f"{symbol.place}/present"
    domain = reader.box.get(var)
    if isinstance(domain, Choice) and domain.single:
        return bool(domain.single[0])
    raise Fork([equal(var, [True]), equal(var, [False])])


# --- lists -----------------------------------------------------------------------------------------------------


def list_of_places(
    reader: Reader, var: str, key: str, item: Callable[[int], Any], at_most: int = LONG
) -> tuple[Any, ...] | LongList:
    """The list whose length is the path `var`, item by item; forks over its lengths."""
    domain = reader.box.get(var)
    if not isinstance(domain, Numbers):
        return ()
    if domain.single:
        length = int(domain.single[0])
        if length < LONG:
            return tuple(item(i) for i in range(length))
    if domain.low >= LONG:
        first = tuple(item(i) for i in range(4))
        return LongList(first, tuple(item(i) for i in range(-3, 0)), Poly.path(var), key)
    alternatives: list[Formula] = [In(var, Numbers.point(n)) for n in range(LONG) if domain.has(n)]
    if domain.high >= LONG:
        alternatives.append(In(var, Numbers.of(LONG, domain.high)))
    raise Fork(alternatives)


def as_list(reader: Reader, term: Any) -> Any:
    """A term that is compared element by element."""
    if isinstance(term, Symbol) and term.kind == "list":
        place = term.place
        return list_of_places(
            reader, f"{place}/len:len", place, lambda i: Symbol(reader.skeleton.find(f"{place}.[{i}]"))
        )
    if isinstance(term, frozenset):
        return tuple(term)
    return term


# --- attributes ------------------------------------------------------------------------------------------------


def attribute(reader: Reader, thing: Any, name: str) -> Any:
    """`thing.name`."""
    if isinstance(thing, Undefined) or thing is None:
        return UNDEFINED
    if isinstance(thing, Pick):
        return _of_pick(reader, thing, name)
    if isinstance(thing, torch.dtype):
        read = _DTYPE.get(name)
        return read(thing) if read else UNDEFINED
    if isinstance(thing, Blur):
        return Blur(f"{thing.key}.{name}")
    if isinstance(thing, frozenset) and name == "name":
        return next(iter(thing)) if len(thing) == 1 else Blur(f"{key_of(thing)}.name")
    if not isinstance(thing, Symbol):
        return None if name == "op" else UNDEFINED
    if not present(reader, thing):
        return UNDEFINED
    place = reader.skeleton.find(thing.place)
    if name in KEPT:
        place = kept_from(reader.skeleton, place, name)
    read_place = _ATTRIBUTES.get(name)
    return read_place(reader, place) if read_place is not None else argument(reader, thing, name)


_DTYPE: Mapping[str, Callable[[torch.dtype], Any]] = {
    "itemsize": lambda d: d.itemsize,
    "is_floating_point": lambda d: d.is_floating_point,
    "is_signed": lambda d: _signed(d),
}


def _signed(dtype: torch.dtype) -> Any:
    try:
        return dtype.is_signed
    except RuntimeError:
        return UNDEFINED


def _of_pick(reader: Reader, pick: Pick, name: str) -> Any:
    domain = reader.box.get(pick.var)
    if name in _DTYPE and isinstance(domain, Choice) and not domain.but:
        groups: dict[Any, set[Any]] = {}
        for dtype in sorted(domain.values, key=str):
            value = _DTYPE[name](dtype) if isinstance(dtype, torch.dtype) else UNDEFINED
            groups.setdefault(value, set()).add(dtype)
        return _grouped(reader, pick.var, groups)
    if pick.var.endswith("/op"):
        return _of_op(reader, pick, name)
    return Blur(f"{pick.var}.{name}", frozenset({pick.var}))


def _grouped(reader: Reader, var: str, groups: Mapping[Any, set[Any]]) -> Any:
    """A value that depends on a choice: forked over its classes."""
    if len(groups) == 1:
        return next(iter(groups))
    raise Fork([In(var, Choice(frozenset(values))) for values in groups.values()])


def _of_op(reader: Reader, pick: Pick, name: str) -> Any:
    domain = reader.box.get(pick.var)
    if isinstance(domain, Choice) and not domain.but and len(domain.values) <= 200:
        groups: dict[Any, set[Any]] = {}
        for op_name in sorted(domain.values, key=str):
            op = reader.skeleton.schema(str(op_name)) if op_name is not None else None
            value: Any = UNDEFINED if op is None else getattr(op, name, UNDEFINED)
            groups.setdefault(value, set()).add(op_name)
        return _grouped(reader, pick.var, groups)
    return Blur(f"{pick.var}.{name}", frozenset({pick.var}))


def _shape(reader: Reader, place: str) -> Any:
    return list_of_places(
        reader, f"{place}/rank", f"{place}.shape", lambda i: reader.number(f"{place}/shape[{i}]")
    )


def _for_each_dim(name: str) -> Callable[[Reader, str], Any]:
    def read(reader: Reader, place: str) -> Any:
        return list_of_places(
            reader, f"{place}/rank", f"{place}.{name}", lambda i: reader.number(f"{place}/{name}[{i}]"))

    return read


def _numel(reader: Reader, place: str) -> Any:
    shape = _shape(reader, place)
    if isinstance(shape, LongList):
        return Blur(f"{place}.numel")
    total = Poly((), 1)
    for size in shape:
        number = as_number(size)
        if number is not None:
            total = total.times(number.poly)
    return int(total.constant) if total.is_constant else Num(total)


def _nbytes(reader: Reader, place: str) -> Any:
    size = attribute(reader, reader.pick(f"{place}/dtype"), "itemsize")
    count = as_number(_numel(reader, place))
    if count is None or not isinstance(size, int):
        return Blur(f"{place}.nbytes")
    total = count.poly.times(Poly((), size))
    return int(total.constant) if total.is_constant else Num(total)


def _op(reader: Reader, place: str) -> Any:
    skeleton = reader.skeleton
    place = skeleton.elements.get(place, (place, 0))[0]
    origin = reader.box.get(f"{skeleton.find(place)}/origin")
    if isinstance(origin, Choice) and not origin.has("node"):
        return None
    return Pick(f"{skeleton.find(place)}/op")


def _inputs(reader: Reader, place: str) -> Any:
    schemas = _schemas(reader, place)
    if schemas is None:
        return Blur(f"{place}.inputs")
    names = _agreed(reader, place, schemas, _tensors_of)
    if names is None:
        return Blur(f"{place}.inputs")
    found: list[Any] = []
    for name, type_ in names:
        term = argument_term(reader, place, name, type_)
        if isinstance(term, Symbol) and term.kind == "list":
            items = as_list(reader, term)
            if isinstance(items, LongList):
                return LongList(tuple(found) + items.first, items.last, items.length.plus(Poly((), len(found))),
                                f"{place}.inputs")
            found.extend(items)
        elif isinstance(term, Symbol) and present(reader, term) and not _is_number(reader, term.place):
            found.append(Symbol(term.place))
    return tuple(found)


def _tensors_of(op: Op) -> tuple[tuple[str, str], ...]:
    return tuple((a.name, a.type) for a in op.arguments if "Tensor" in a.type)


def _is_number(reader: Reader, place: str) -> bool:
    """Is a number written where a tensor may stand? Forks where that is open."""
    if place.rpartition(".")[2] not in NUMBER_PLACES:
        return False
    domain = reader.box.get(f"{place}/number")
    if isinstance(domain, Choice) and domain.single:
        return bool(domain.single[0])
    raise Fork([equal(f"{place}/number", [False]), equal(f"{place}/number", [True])])


def _outputs(reader: Reader, place: str) -> Any:
    schemas = _schemas(reader, place)
    if schemas is None:
        return Blur(f"{place}.outputs")
    returns = _agreed(reader, place, schemas, lambda op: op.returns)
    if returns is None:
        return Blur(f"{place}.outputs")
    if len(returns) == 1 and not returns[0].endswith("[]"):
        return (Symbol(place),)
    if any(r.endswith("[]") for r in returns):
        return Blur(f"{place}.outputs")
    return tuple(Symbol(reader.skeleton.find(f"{place}.out{i}")) for i in range(len(returns)))


def _users(reader: Reader, place: str) -> Any:
    return LongList((), (), Poly.path(f"{place}/users"), f"{place}.users")


def _schemas(reader: Reader, place: str) -> list[Op] | None:
    """The schemas of the ops that a place can be; by the box where no pattern says so."""
    names = reader.box.get(f"{place}/op")
    if isinstance(names, Choice) and not names.but and len(names.values) <= 200:
        found = [reader.skeleton.schema(str(name)) for name in sorted(names.values - {None}, key=str)]
        return [op for op in found if op is not None]
    return None


def _agreed(reader: Reader, place: str, schemas: list[Op], ask: Callable[[Op], Any]) -> Any:
    groups: dict[Any, set[str]] = {}
    for op in schemas:
        groups.setdefault(ask(op), set()).add(op.name)
    if len(groups) == 1:
        return next(iter(groups))
    if not groups:
        return None
    raise Fork([In(f"{place}/op", Choice(frozenset(names))) for names in groups.values()])


def _subgraphs(reader: Reader, place: str) -> Any:
    schemas = _schemas(reader, place)
    count = None if schemas is None else _agreed(reader, place, schemas, _branches_of)
    if count is None:
        return Blur(f"{place}.subgraphs")
    return tuple(Blur(f"{place}.subgraphs[{i}]") for i in range(count))


def _branches_of(op: Op) -> int:
    known = CONTROL_FLOW.get(op.base) if op.style == "higher_order" else None
    return 0 if known is None else len(known.branches)


def _fixed_pick(name: str) -> Callable[[Reader, str], Any]:
    return lambda reader, place: reader.pick(f"{place}/{name}")


_ATTRIBUTES: Mapping[str, Callable[[Reader, str], Any]] = {
    "dtype": _fixed_pick("dtype"),
    "rank": lambda reader, place: reader.number(f"{place}/rank"),
    "shape": _shape,
    "numel": _numel,
    "nbytes": _nbytes,
    "op": _op,
    "inputs": _inputs,
    "outputs": _outputs,
    "users": _users,
    "device": _fixed_pick("device"),
    "name": _fixed_pick("name"),
    "module": _fixed_pick("module"),
    "source": _fixed_pick("source"),
    "strides": _for_each_dim("strides"),
    "storage_offset": lambda reader, place: reader.number(f"{place}/storage_offset"),
    "dim_order": _for_each_dim("dim_order"),
    "subgraphs": _subgraphs,
}


# --- arguments -------------------------------------------------------------------------------------------------


def argument(reader: Reader, thing: Any, name: str) -> Any:
    """The argument `name` of the call that makes `thing`."""
    if not isinstance(thing, Symbol):
        return UNDEFINED if thing is None or isinstance(thing, Undefined) else Blur(f"{key_of(thing)}.{name}")
    if not present(reader, thing):
        return UNDEFINED
    place = reader.skeleton.find(thing.place)
    place = reader.skeleton.elements.get(place, (place, 0))[0]
    origin = reader.box.get(f"{place}/origin")
    if isinstance(origin, Choice) and not origin.has("node"):
        return UNDEFINED
    schemas = _schemas(reader, place)
    if schemas is None:
        return Blur(f"{place}.{name}")
    type_ = _agreed(reader, place, schemas, lambda op: _type_of(op, name))
    if type_ is None:
        return UNDEFINED
    return argument_term(reader, place, name, type_)


def _type_of(op: Op, name: str) -> str | None:
    found = op.argument(name)
    return None if found is None else found.type


def argument_term(reader: Reader, place: str, name: str, type_: str) -> Any:
    """The argument `name` of the node at `place`, by its schema type."""
    child = reader.skeleton.find(f"{place}.{name}")
    base, optional = type_.rstrip("?"), type_.endswith("?")
    if base.endswith("]"):
        item = base[: base.rindex("[")]
        if "Tensor" in item:
            return Symbol(child, "list")
        if optional and not present(reader, Symbol(child, "tensor?")):
            return None
        number = "int" if item in ("int", "SymInt") else "number"
        length = f"{child}/len:len"
        return list_of_places(reader, length, child, lambda i: reader.number(f"{child}[{i}]/value:{number}"))
    if base == "Tensor":
        return Symbol(child, "tensor?" if optional else "tensor")
    domain = _SCALARS.get(base)
    if domain is None:
        return reader.pick(f"{child}/value:{base}")
    if domain in ("int", "number"):
        if optional and not present(reader, Symbol(child, "tensor?")):
            return None
        return reader.number(f"{child}/value:{domain}")
    return reader.pick(f"{child}/value:{domain}{'?' if optional else ''}")


_SCALARS: Mapping[str, str] = {
    "int": "int",
    "SymInt": "int",
    "float": "number",
    "SymFloat": "number",
    "Scalar": "number",
    "number": "number",
    "bool": "bool",
    "SymBool": "bool",
    "ScalarType": "dtype",
}


def element(reader: Reader, thing: Symbol, index: Any) -> Any:
    """`y[0]` of an op with several outputs, or an item of a list of values."""
    if thing.kind == "list":
        items = as_list(reader, thing)
        if not isinstance(index, int):
            return Blur(f"{thing.place}[{key_of(index)}]")
        if isinstance(items, tuple):
            return items[index] if -len(items) <= index < len(items) else UNDEFINED
        return Symbol(reader.skeleton.find(f"{thing.place}.[{index}]"))
    if not isinstance(index, int):
        return Blur(f"{thing.place}[{key_of(index)}]")
    return Symbol(reader.skeleton.find(f"{thing.place}.out{index}"))


# --- options and marks -----------------------------------------------------------------------------------------


def option(reader: Reader, name: str, env: Environment) -> Any:
    """`option.NAME`: a path of its own where it has few values, else its value in this load."""
    environment, owned = env.scope.environment, env.owner + name
    type_ = environment.option_types.get(name)
    if type_ is None:
        return UNDEFINED
    if type_.kind == "bool":
        return reader.pick(f"option.{owned}/value:bool")
    if type_.kind == "str" and type_.choices is not None:
        return reader.pick(f"option.{owned}/value:str")
    if type_.kind == "set" and type_.item.choices is not None:
        return OptionSet(owned, tuple(sorted(type_.item.choices)))
    if type_.kind == "int":
        return reader.number(f"option.{owned}/value:int")
    return environment.options.get(name, UNDEFINED)


def compare_option(one: OptionSet, other: Any) -> Cond:
    """`option.NAME == {…}`."""
    if isinstance(other, tuple) and all(isinstance(item, str) for item in other):
        other = frozenset(other)
    if not isinstance(other, frozenset):
        return open_condition(f"option.{one.name} == {key_of(other)}")
    if not other <= set(one.choices):
        return Cond(FALSE, TRUE)
    parts = [one.has(choice) if choice in other else negated(one.has(choice)) for choice in one.choices]
    return cond(both(*parts))


def mark(reader: Reader, thing: Any, name: str, scope: Scope) -> Any:
    """`n.meta.NAME`: what someone else left there; a path that can be anything of its type."""
    if not isinstance(thing, Symbol) or not present(reader, thing):
        return UNDEFINED if not isinstance(thing, Blur) else Blur(f"{thing.key}.meta.{name}", reason="meta")
    declaration = scope.environment.metas.get(name)
    if declaration is None:
        return UNDEFINED
    type_ = declaration.type
    found = mark_path(reader.skeleton.find(thing.place), declaration.path)
    if type_.is_set or type_.is_list:
        return Blur(found, reason="meta")
    if type_.choices:
        return reader.pick(f"{found}:str")
    if type_.name in ("int", "float"):
        return reader.number(f"{found}:{'int' if type_.name == 'int' else 'number'}")
    return reader.pick(f"{found}:{type_.name}")


def mark_path(place: str, path: str) -> str:
    """A mark of a place, by where it is left: files may have different names for it."""
    return f"{place}/meta {quote(path, safe=' ')}"


# --- kinds -----------------------------------------------------------------------------------------------------


def kind(reader: Reader, term: Any, name: str) -> Cond:
    """`term is name`."""
    if isinstance(term, Undefined):
        return Cond(FALSE, FALSE)
    if isinstance(term, Symbol) and term.kind == "list":
        return open_condition(f"{term.place} is {name}", term)
    if isinstance(term, Symbol):
        return _kind_of_symbol(reader, term, name)
    if isinstance(term, Blur):
        if isinstance(term.of, Symbol):
            return open_condition(f"{term.key} is {name}", term)
        return open_condition(f"{term.key} is {name}", term)
    return _kind_of_literal(reader, term, name)


def _kind_of_symbol(reader: Reader, symbol: Symbol, name: str) -> Cond:
    place = reader.skeleton.find(symbol.place)
    there: Formula = equal(f"{place}/present", [True]) if symbol.kind == "tensor?" else TRUE
    if name == "none":
        return Cond(negated(there), there)
    found = _symbol_kind(reader, place, name)
    return Cond(both(there, found), negated(both(there, found)))


def _symbol_kind(reader: Reader, place: str, name: str) -> Formula:
    origins = _ORIGINS.get(name)
    node = reader.skeleton.elements.get(place, (place, 0))[0]
    if origins is not None:
        return In(f"{reader.skeleton.find(node)}/origin", Choice(origins))
    if name == "tensor":
        return _tensor(place)
    if name in ("literal", "int", "float", "bool", "str"):
        return _number_kind(place, name)
    if name == "static":
        return equal(f"{place}/symbolic", [False])
    return equal(f"{place}/{name}", [True])


def _tensor(place: str) -> Formula:
    if place.rpartition(".")[2] in NUMBER_PLACES:
        return equal(f"{place}/number", [False])
    return TRUE


def _number_kind(place: str, name: str) -> Formula:
    if place.rpartition(".")[2] not in NUMBER_PLACES or name == "str":
        return FALSE
    number = equal(f"{place}/number", [True])
    return number if name == "literal" else both(number, equal(f"{place}/written:str", [name]))


_ORIGINS: Mapping[str, frozenset[str]] = {
    "node": frozenset({"node"}),
    "constant": frozenset({"parameter", "buffer", "constant", "attribute"}),
    "parameter": frozenset({"parameter"}),
    "buffer": frozenset({"buffer", "mutable_buffer"}),
    "mutable_buffer": frozenset({"mutable_buffer"}),
    "user_input": frozenset({"user"}),
    "graph_input": frozenset({"user", "parameter", "buffer", "mutable_buffer", "constant"}),
}


def _kind_of_literal(reader: Reader, term: Any, name: str) -> Cond:
    if name == "none":
        if isinstance(term, Pick):
            return compare_terms("==", term, None)
        return cond(TRUE if term is None else FALSE)
    if term is None:
        return cond(FALSE)
    if name == "literal":
        return Cond(negated(_none(term)), _none(term))
    if name in ("static", "symbolic", "unbacked"):
        return _varies(term, name)
    if name in ("int", "float"):
        return _written(term, name)
    if name == "bool":
        is_bool = isinstance(term, (bool, Cond)) or (isinstance(term, Pick) and ":bool" in term.var)
        return cond(TRUE if is_bool else FALSE)
    if name == "str":
        return cond(TRUE if isinstance(term, str) or (isinstance(term, Pick) and term.var.endswith(":str")) else FALSE)
    return Cond(FALSE, TRUE)


def _varies(term: Any, name: str) -> Cond:
    """Is a number or a list of them static, symbolic, unbacked? A size is static where its tensor is."""
    parts = term if isinstance(term, tuple) else (term,)
    sizes = sorted({var for part in parts if isinstance(part, Num) for var in part.poly.variables})
    if not sizes:
        return cond(TRUE if name == "static" else FALSE)
    still = both(*(equal(f"{var.partition('/')[0]}/symbolic", [False]) for var in sizes))
    left = open_condition(f"{key_of(term)} varies", reason="symbolic")
    static = Cond(either(still, left.false), left.true)
    if name == "static":
        return static
    found = Cond(static.false, static.true)
    if name == "symbolic":
        return found
    unbacked = open_condition(f"{key_of(term)} unbacked", reason="symbolic")
    return Cond(both(found.true, unbacked.true), either(found.false, unbacked.false))


def _none(term: Any) -> Formula:
    return compare_terms("==", term, None).true if isinstance(term, Pick) else FALSE


def _written(term: Any, name: str) -> Cond:
    if isinstance(term, (bool, Cond)) or not isinstance(term, (int, float, Num)):
        return cond(FALSE)
    if not isinstance(term, Num):
        return cond(TRUE if isinstance(term, float) == (name == "float") else FALSE)
    var = term.poly.single
    if not var or term.whole:
        return cond(TRUE if (name == "int") == term.whole else FALSE)
    return cond(equal(var.replace("/value:number", "/written:str"), [name]))

