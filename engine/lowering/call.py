"""The call of a delegate in a graph: a higher-order op, `apportion_call_delegate(lowered, *inputs) -> outputs`."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, disable_proxy_modes_tracing, track_tensor_tree
from torch.fx.node import has_side_effect
from torch.utils import _pytree as pytree

__all__ = ["apportion_call_delegate", "attach"]


class _CallDelegate(HigherOrderOperator):
    def __init__(self) -> None:
        super().__init__("apportion_call_delegate")  # type: ignore[no-untyped-call]

    def __call__(self, lowered: Any, *args: Any) -> Any:
        """The outputs of a delegate, flat, in a list."""
        return super().__call__(lowered, *args)  # type: ignore[no-untyped-call]


apportion_call_delegate = _CallDelegate()
for _key in (
    DispatchKey.PythonDispatcher,
    DispatchKey.PythonTLSSnapshot,
    DispatchKey.ADInplaceOrView,
    DispatchKey.BackendSelect,
    DispatchKey.AutocastCPU,
):
    apportion_call_delegate.fallthrough(_key)  # type: ignore[no-untyped-call]
# A delegate may keep a buffer of its own: no pass may drop a call because nobody reads what it gives.
has_side_effect(apportion_call_delegate)


def attach(root: torch.nn.Module, lowered: torch.nn.Module) -> str:
    """Give a lowered module a name on `root` (`lowered_module_N`, the first free N) and return the name."""
    number = 0
    while True:
        name = f"lowered_module_{number}"
        known = getattr(root, name, None)
        if known is None or known is lowered:
            break
        number += 1
    root.add_module(name, lowered)
    return name


@apportion_call_delegate.py_impl(DispatchKey.CompositeExplicitAutograd)
def _run(lowered: Any, *args: Any) -> Any:
    return lowered.run(*args)


@apportion_call_delegate.py_impl(DispatchKey.Autograd)
def _below_autograd(lowered: Any, *args: Any) -> Any:
    # What a delegate computes has no derivative here; its outputs are plain values.
    with torch._C._AutoDispatchBelowAutograd():
        return apportion_call_delegate(lowered, *args)


@apportion_call_delegate.py_impl(FakeTensorMode)
def _fake(mode: FakeTensorMode, lowered: Any, *args: Any) -> Any:
    with mode:
        return lowered.describe(*args)


@apportion_call_delegate.py_impl(ProxyTorchDispatchMode)
def _trace(mode: ProxyTorchDispatchMode, lowered: Any, *args: Any) -> Any:
    with disable_proxy_modes_tracing():
        outputs = apportion_call_delegate(lowered, *args)
    tracer: Any = mode.tracer
    name = attach(tracer.root, lowered)
    operands = pytree.tree_map(tracer.unwrap_proxy, args)
    proxy = tracer.create_proxy(
        "call_function",
        apportion_call_delegate,
        (tracer.create_proxy("get_attr", name, (), {}), *operands),
        {},
        name="apportion_call_delegate",
    )
    return track_tensor_tree(outputs, proxy, constant=None, tracer=tracer)


@apportion_call_delegate.py_functionalize_impl
def _functionalize(context: Any, lowered: Any, *args: Any) -> Any:
    operands = context.unwrap_tensors(args)
    with context.redispatch_to_next():
        return context.wrap_tensors(apportion_call_delegate(lowered, *operands))
