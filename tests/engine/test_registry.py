"""The registry of compile functions: torch's own, with our checks."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo as dynamo
from torch._dynamo.backends import registry as torchs

from apportion import engine
from tests.engine.torch_registry import restored


def compiler(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return module.forward


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with restored():
        yield


def fresh(name: str) -> Any:
    def made(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return compiler(module, inputs)

    made.__name__ = name
    return made


def test_register_in_every_form() -> None:
    one, two, three = fresh("form_one"), fresh("form_two"), fresh("form_three")
    assert engine.register_backend(one) is one
    assert engine.register_backend(name="second", tags=("a", "b"))(two) is two
    assert engine.register_backend(three, "third") is three
    assert two._tags == ("a", "b") and one._tags == ()
    for name, function in (("form_one", one), ("second", two), ("third", three)):
        assert engine.lookup_backend(name) is function is torchs.lookup_backend(name)
        assert name in engine.list_backends() and name in dynamo.list_backends()
    assert engine.lookup_backend(one) is one
    assert engine.CompilerFn is torchs.CompilerFn and engine.CompiledFn is torchs.CompiledFn


def test_what_is_registered_is_used_by_torch_compile() -> None:
    engine.register_backend(fresh("used_at_once"))
    function = torch.compile(lambda x: x.relu() + 1, backend="used_at_once")
    assert torch.equal(function(torch.ones(3)), torch.full((3,), 2.0))


def test_what_torch_knows_is_known_here() -> None:
    torchs.register_backend(fresh("from_torch"))
    assert "from_torch" in engine.list_backends()
    with pytest.raises(AssertionError, match="from_torch is registered already"):
        engine.register_backend(fresh("from_torch"))
    for excluded in (("debug", "experimental"), None, (), ("debug",)):
        assert engine.list_backends(excluded) == sorted(dynamo.list_backends(excluded))


def test_hidden_ones_are_listed_on_request() -> None:
    engine.register_debug_backend(fresh("quiet_one"))
    engine.register_experimental_backend(name="daring_one")(fresh("x"))
    assert not {"quiet_one", "daring_one"} & set(engine.list_backends())
    assert {"quiet_one", "daring_one"} <= set(engine.list_backends(None)) & set(engine.list_backends(()))
    assert "quiet_one" in engine.list_backends(("experimental",))
    assert engine.lookup_backend("quiet_one")._tags == ("debug",)


def test_duplicates_are_refused() -> None:
    engine.register_backend(fresh("again"))
    with pytest.raises(AssertionError, match="duplicate name: again"):
        engine.register_backend(fresh("again"))
    with pytest.raises(AssertionError, match="apportion"):  # an entry point, whether it was loaded or not
        engine.register_backend(fresh("apportion"))
    with pytest.raises(AssertionError):
        engine.register_backend(3)  # type: ignore[call-overload]


def test_unknown_names_suggest_near_ones() -> None:
    engine.register_debug_backend(fresh("inductox"))
    with pytest.raises(engine.InvalidBackend, match="did you mean 'inductor'") as caught:
        engine.lookup_backend("inductr")
    assert "inductox" not in str(caught.value)
    assert isinstance(caught.value, torch._dynamo.exc.InvalidBackend)
    with pytest.raises(engine.InvalidBackend, match="known are"):
        engine.lookup_backend("zzzzzzzzzz")


def test_many_threads_register_at_once() -> None:
    problems: list[BaseException] = []
    wins: list[int] = []

    def work(number: int) -> None:
        try:
            engine.register_backend(fresh(f"thread_{number}"))
            try:
                engine.register_backend(fresh("contested"))
                wins.append(number)
            except AssertionError:
                pass
            engine.list_backends()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not problems and len(wins) == 1
    assert {f"thread_{n}" for n in range(16)} <= set(engine.list_backends())


# --- a package that brings an accelerator ----------------------------------------------------------------------------

PACKAGE = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "acme-accelerator"
version = "1.0"
[project.entry-points."apportion.backends"]
AcmeBackend = "acme_accelerator.backend:AcmeBackend"
[project.entry-points."apportion.rules"]
acme = "acme_accelerator"
[project.entry-points."torch_dynamo_backends"]
acme = "acme_accelerator.compiling:acme"
acme_broken = "acme_accelerator.broken:nothing"
[tool.setuptools]
packages = ["acme_accelerator"]
package-data = { acme_accelerator = ["*.rules"] }
""",
    "acme_accelerator/__init__.py": "",
    "acme_accelerator/acme.rules": 'backend "AcmeBackend" language 1\nrule relu { match y = aten.relu.default() }\n',
    "acme_accelerator/backend.py": """
from apportion import engine
class AcmeBackend(engine.BackendDetails):
    @staticmethod
    def preprocess(edge_program, compile_specs):
        return engine.PreprocessResult(b"relu")
    @classmethod
    def load(cls, processed_bytes, compile_specs, named_data=None):
        return lambda x: [x.clamp(min=0)]
""",
    "acme_accelerator/compiling.py": """
from apportion import engine
acme = engine.compile_backend("acme")
""",
    "acme_accelerator/broken.py": "raise ValueError('the driver is too old')",
}

SCRIPT = """
import sys, torch
from apportion import engine
names = engine.list_backends()
assert "acme" in names and "acme_broken" in names, names
assert not [name for name in sys.modules if name.startswith("acme")]
try:
    engine.lookup_backend("acme_broken")
except ImportError as problem:
    assert "the driver is too old" in str(problem) and isinstance(problem.__cause__, ValueError), problem
else:
    raise SystemExit("a broken plugin loaded")
assert engine.load_rules("acme").backend_id == "AcmeBackend"
class Model(torch.nn.Module):
    def forward(self, x):
        return x.relu() + 1
x = torch.randn(3)
lowered = engine.lower(Model(), "acme", (x,))
assert torch.equal(lowered.module()(x), x.relu() + 1)
engine.save(lowered, sys.argv[1])
assert torch.equal(torch.compile(Model(), backend="acme")(x), x.relu() + 1)
try:
    engine.register_backend(lambda m, i: m, name="acme_broken")
except AssertionError as problem:
    assert "acme-accelerator" in str(problem), problem
else:
    raise SystemExit("a duplicate was registered")
print("fine")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built and installed by pip into a folder of its own."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name, text in PACKAGE.items():
        path = source / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    run = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
                          "--target", str(target), str(source)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return target


def python(site: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    start = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    command = [sys.executable, "-W", "ignore", "-c", start + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_an_installed_package_brings_its_accelerator(site: Path, tmp_path: Path) -> None:
    run = python(site, SCRIPT, str(tmp_path / "m.apl"))
    assert run.stdout.strip() == "fine", run.stderr
    again = "from apportion import engine; print(engine.load(sys.argv[1]).module())"
    loaded = python(site, again, str(tmp_path / "m.apl"))
    assert loaded.returncode == 0, loaded.stderr
    with pytest.raises(engine.BackendNotFoundError, match="AcmeBackend"):
        engine.load(tmp_path / "m.apl")  # here it is not installed
