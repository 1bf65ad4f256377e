"""The layout: who may import whom, what is packaged, and what no file may say."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("grammar", "rules", "engine", "backends")
# Who may import whom. The command line stands above all of it, so it may show what a backend does with a program.
ALLOWED = {
    "grammar": {"grammar"},
    "rules": set(),
    "engine": {"engine", "grammar"},
    "backends": {"backends", "engine", "grammar"},
    "cli": {"cli", "backends", "engine", "grammar"},
}


def modules() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def part(dotted: str) -> str:
    """The part of the house that a module belongs to: `apportion.engine.match` to `engine`."""
    names = dotted.split(".")
    return "cli" if names[1:3] == ["engine", "cli"] else names[1]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node.lineno, module if module != "apportion" and module != "apportion.engine" else (
                    f"{module}.{alias.name}")


@pytest.mark.parametrize("path", list(modules()), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = part("apportion." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
    for line, name in imports(path):
        place = f"{path.relative_to(ROOT)}:{line}"
        assert not name.startswith("."), f"{place}: relative import {name}"
        assert name.split(".")[0] not in (*FOLDERS, "tests"), f"{place}: {name} is installed as apportion.{name}"
        if name.startswith("apportion.") and path != ROOT / "engine" / "__main__.py":
            assert part(name) in ALLOWED[own], f"{place}: {own} must not import {name}"


def test_grammar_knows_nothing_of_torch() -> None:
    names = ["apportion." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
             for path in sorted((ROOT / "grammar").glob("*.py"))]
    code = (f"import {', '.join(names)}, sys\n"
            "sys.exit(' '.join({'torch', 'apportion.engine'} & set(sys.modules)) or 0)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)
    assert (run.returncode, run.stderr) == (0, "")


def test_every_package_is_listed() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in modules()}
    assert {".".join(("apportion", *folder.parts)) for folder in folders} == set(tool["packages"])
    for folder in folders:
        assert (ROOT / folder / "__init__.py").is_file(), folder
    assert tool["package-dir"] == {f"apportion.{folder}": folder for folder in FOLDERS}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel, from a copy, so that building leaves nothing in the tree."""
    copy = tmp_path_factory.mktemp("wheel") / "source"
    copy.mkdir()
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run = subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
                          "--wheel-dir", str(copy / "dist"), str(copy)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (built,) = (copy / "dist").glob("*.whl")
    return built


def test_the_wheel_has_every_file(wheel: Path) -> None:
    """Modules, rules files, the grammar, and whatever else lies in the folders."""
    expected = {f"apportion/{path.relative_to(ROOT).as_posix()}" for folder in FOLDERS
                for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_works_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """Unpacked into an empty place, the command finds its modules and the shipped rules files there."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = ("import apportion.engine, apportion.grammar.parse\n"
            "print(apportion.engine.__file__)\n"
            "print(apportion.grammar.parse.__file__)\n"
            "print(apportion.engine.load_rules('xnnpack').sources[0].name)\n")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr
    files = run.stdout.split()
    assert [file.startswith(str(tmp_path)) for file in files[:2]] == [True, True]
    assert "xnnpack" in files[2]


def texts() -> Iterator[Path]:
    """The files that belong to the project."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split("\n") if listed.returncode == 0 else [str(path) for path in ROOT.rglob("*.py")]
    yield from (ROOT / name for name in names if name and (ROOT / name).is_file())


def test_no_file_names_a_path_of_some_machine() -> None:
    # Written apart, so that this file does not name one either.
    roots = "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me", "op" + "t", "Us" + "ers"))
    path = re.compile(rf"(?<![\w.~*\]}})-])/({roots})/\w")
    found = [f"{file.relative_to(ROOT)}: {match[0]}" for file in texts()
             for match in path.finditer(file.read_text(encoding="utf-8", errors="replace"))]
    assert found == []
