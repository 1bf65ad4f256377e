"""The documentation: what is shown there is run.

Of the fenced blocks of a page, in order and in one folder:

- `rules`: a rules file (a first line `backend` is added where it has none) that loads and whose examples hold;
  `file=NAME` also writes it, `library` says that it is none for a backend, `broken=A003,A004` which errors it has;
- `python`: runs, in one namespace a page;
- `console`: after `$`, a command line of `apportion`, then what it prints (`...` stands for any lines), then its
  exit status in brackets unless that is 0.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen

from apportion import engine
from apportion.engine.attributes import ATTRIBUTES
from apportion.engine.cli.main import COMMANDS
from apportion.engine.examples import run_examples
from apportion.engine.facts import KINDS
from apportion.engine.functions import FORMS, FUNCTIONS
from apportion.grammar.parse import parse

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md")
FENCE = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@frozen
class Block:
    """One fenced block: its language, the words after it, its text, and where it is."""

    language: str
    words: dict[str, str]
    text: str
    place: str


@frozen
class Page:
    """What the blocks of a page share."""

    folder: Path
    names: dict[str, Any] = field(factory=dict)


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        words = dict((*word.split("=", 1), "")[:2] for word in found[2].split())
        yield Block(found[1], words, found[3], f"{path.name}:{text.count(chr(10), 0, found.start()) + 1}")


def run_rules(block: Block, page: Page) -> None:
    text = block.text
    if "library" not in block.words and not re.search(r"^backend ", text, re.MULTILINE):
        text = 'backend "AcmeNpu" language 1 ' + text
    if "file" in block.words:
        (page.folder / block.words["file"]).write_text(text, encoding="utf-8")
    if "library" in block.words:
        assert parse(text).diagnostics == ()
        return
    name = str(page.folder / "page.rules")
    if "broken" in block.words:
        with pytest.raises(engine.RulesError) as caught:
            engine.parse_rules(text, name=name)
        assert sorted({d.code for d in caught.value.diagnostics}) == block.words["broken"].split(","), caught.value
        return
    rules = engine.parse_rules(text, name=name)
    allowed = {"holds", "skipped"} if rules.declared else {"holds"}
    wrong = [f"{result.rule}: {result.outcome}: {result.message} ({result.span})"
             for result in run_examples(rules) if result.outcome not in allowed]
    assert not wrong, "\n".join(wrong)


def run_python(block: Block, page: Page) -> None:
    exec(compile(block.text, block.place, "exec"), page.names)


def run_console(block: Block, page: Page) -> None:
    for command in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, expected = command.partition("\n")
        program, *arguments = shlex.split(line)
        assert program == "apportion", line
        run = subprocess.run([sys.executable, "-m", "apportion.engine", *arguments], cwd=page.folder, text=True,
                             capture_output=True)
        status = re.search(r"^\[(\d+)\]\n?\Z", expected, re.MULTILINE)
        assert run.returncode == (int(status[1]) if status else 0), run.stderr
        expected = expected[:status.start()] if status else expected
        if expected.strip() not in ("", "..."):
            pattern = re.escape(expected.strip()).replace(re.escape("\n...\n"), r"\n(?:.*\n)*")
            pattern = pattern.replace(re.escape("..."), ".*")
            assert re.fullmatch(pattern, run.stdout.strip()), f"{line}\n{run.stdout}{run.stderr}"


RUNNERS = {"rules": run_rules, "python": run_python, "console": run_console}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_a_page_shows_is_true(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page, failures = Page(tmp_path, {"__name__": "docs"}), []
    for block in blocks(path):
        try:
            if block.language in RUNNERS:
                RUNNERS[block.language](block, page)
        except Exception as problem:  # every wrong block is reported in one run
            failures.append(f"{block.place}: {type(problem).__name__}: {problem}")
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name}: {target}"
    headings = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
                for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


def test_every_page_is_reached() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages - set(re.findall(r"\]\(([\w.]+)\)", index)) == set(), "docs/index.md links each page"


def test_every_command_has_its_place() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert [command.name for command in COMMANDS if f"`apportion {command.name}" not in text] == []


KIND_USE, FUNCTION_USE, ATTRIBUTE_USE = r"\bis (?:not )?{}\b", r"\b{}\(", r"\.{}\b"
NAMES = [*((name, KIND_USE) for name in KINDS), *((name, FUNCTION_USE) for name in (*FUNCTIONS, *FORMS)),
         *((name, ATTRIBUTE_USE) for _, name in ATTRIBUTES)]


@pytest.mark.parametrize(("name", "use"), sorted(set(NAMES)), ids=lambda value: value if value.isidentifier() else "")
def test_the_reference_is_complete(name: str, use: str) -> None:
    """Every kind, attribute and function has its place in a table, and is used in an example that runs."""
    page = ROOT / "docs" / "reference.md"
    examples = "\n".join(block.text for block in blocks(page) if block.language == "rules")
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert re.search(rf"`{name}[`(]", prose), f"{name} is in no table"
    # `claimed` speaks of sub-graphs, which an example of calls can't have.
    assert name == "claimed" or re.search(use.format(name), examples), f"{name} is in no example"


def test_the_contract_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    written = {name for path in (ROOT / "tests").rglob("test_*.py")
               for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert len(named) > 30 and named - written == set()
