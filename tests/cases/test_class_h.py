"""Public reports about registries and plugins, by their ids."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo as dynamo
from torch._dynamo.backends import registry as torchs

from apportion import engine
from tests.engine.torch_registry import restored


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with restored():
        yield
    dynamo.reset()


def installed(name: str, value: str) -> None:
    """What torch knows of a package after it has read the entry points."""
    torchs._BACKENDS[name] = EntryPoint(name=name, value=value, group="torch_dynamo_backends")


def test_H1_a_plugin_is_listed_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "h1_broken.py").write_text("raise ValueError('the driver is too old')\n")
    (tmp_path / "h1_good.py").write_text("def compiler(module, inputs):\n    return module.forward\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed("h1_broken", "h1_broken:compiler")
    installed("h1_good", "h1_good:compiler")
    assert {"h1_broken", "h1_good"} <= set(engine.list_backends())
    assert not {"h1_broken", "h1_good"} & sys.modules.keys()
    with pytest.raises(ImportError, match="the driver is too old") as caught:
        engine.lookup_backend("h1_broken")
    assert isinstance(caught.value.__cause__, ValueError)
    assert engine.lookup_backend("h1_good").__module__ == "h1_good"  # the others go on
    assert "h1_broken" in engine.list_backends()


@pytest.mark.parametrize(("typed", "meant"), [("inductr", "inductor"), ("aport1on", "apportion"), ("EAGER", "eager")])
def test_H3_a_typo_gets_the_nearest_name(typed: str, meant: str) -> None:
    engine.register_backend(lambda module, inputs: module.forward, name="eager_2")
    hidden = "eager" if meant == "eager" else "inductrr"
    if hidden not in engine.list_backends(None):
        engine.register_debug_backend(lambda module, inputs: module.forward, name=hidden)
    with pytest.raises(dynamo.exc.InvalidBackend, match=typed) as caught:
        engine.lookup_backend(typed)
    named = str(caught.value).partition(";")[2]
    visible = set(engine.list_backends())
    assert (f"'{meant}'" in named) is (meant in visible)
    assert f"'{hidden}'" not in named


def test_H3_backends_and_rules_that_are_misspelt_get_theirs() -> None:
    with pytest.raises(engine.BackendNotFoundError, match="did you mean EagerBackend"):
        engine.to_backend("EagrBackend", torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), [])
    with pytest.raises(engine.RulesError, match="openvino"):
        engine.load_rules("openvimo")


class StartedBackend(engine.BackendDetails):
    """Counts how often it is started, and notes the specs it is given."""

    started = 0
    seen: list[Any] = []

    @classmethod
    def initialize(cls) -> None:
        cls.started += 1

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> engine.PreprocessResult:
        StartedBackend.seen.append([(spec.key, spec.value) for spec in compile_specs])
        return engine.PreprocessResult(b"relu")

    @classmethod
    def load(cls, processed_bytes: bytes, compile_specs: Any, named_data: Any = None) -> Any:
        return lambda x: [x.clamp(min=0)]


def test_H6_started_once_and_options_reach_the_backend() -> None:
    rules = engine.parse_rules('backend "StartedBackend" language 1\noption level: int = 1\n'
                               "rule relu { match y = aten.relu.default() emit level = option.level }")
    wrapped = engine.compile_backend(rules, options={"level": 3}, compile_specs=[engine.CompileSpec("extra", b"x")])
    engine.register_backend(wrapped, name="h6_wrapped")
    x = torch.randn(4)
    for backend, options in (("h6_wrapped", None), ("apportion", {"rules": [rules], "options": {"level": 5}})):
        found = torch.compile(lambda v: v.relu() + 1, backend=backend, options=options)(x)
        assert torch.equal(found, x.relu() + 1)
    assert StartedBackend.started == 1
    assert StartedBackend.seen == [[("level", b"3"), ("extra", b"x")], [("level", b"5")]]
