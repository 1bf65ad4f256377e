"""Files: finding and reading a rules file and everything that it uses, in the order of the text."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from pathlib import Path

from attrs import Factory, define, frozen

from apportion.grammar import tree
from apportion.grammar.diagnostics import Diagnostic, Label, Severity, Source, Span, nearest
from apportion.grammar.kept import parse_kept
from apportion.grammar.result import ParseResult

__all__ = ["LANGUAGE", "Program", "Unit", "read_program", "shipped_folder", "shipped_names", "unreadable"]

LANGUAGE = 1
"""The version of the language that this engine reads."""

SUFFIX = ".rules"

_HEADER = re.compile(r'(?:\s|#[^\n]*)*backend\s+"[^"\n]*"\s+language\s+(\d{1,9})\b')


@frozen(eq=False)
class Unit:
    """One file: its text, its tree, and whether it is the one that was asked for."""

    source: Source
    file: tree.File
    is_root: bool


@frozen(eq=False)
class Program:
    """A file and all that it uses. `statements` are in the order of the text, each with its file, those of a used file
    at the place of its `use`; `root` is None where it could not be read. `complete` is unset where a part of the whole
    is missing, so that names of it would only seem to be undefined: those in `lost`, or any where `missing` is set."""

    root: Unit | None
    units: tuple[Unit, ...]
    statements: tuple[tuple[tree.Statement, Unit], ...]
    complete: bool
    diagnostics: tuple[Diagnostic, ...]
    lost: frozenset[str] = frozenset()
    missing: bool = False


def shipped_folder() -> Path:
    """The folder of the rules files that come with the package."""
    return Path(str(resources.files("apportion.rules")))


def shipped_names() -> list[str]:
    """The names of the backends' files that come with the package, sorted."""
    return sorted(path.stem for path in shipped_folder().glob(f"*{SUFFIX}"))


def read_program(text: str, name: str, folder: Path, path: Path | None = None) -> Program:
    """Parse `text` and everything it uses; `use` is relative to `folder`. Never raises: errors are diagnostics."""
    reader = _Reader()
    key = None if path is None else _key(path)
    root = reader.unit(text, name, folder, key, is_root=True)
    return Program(
        root, tuple(reader.units), tuple(reader.statements), reader.complete, tuple(reader.diagnostics),
        frozenset(reader.lost), reader.missing,
    )  # fmt: skip


def read_text(path: Path) -> str:
    """The text of a rules file. Raises OSError, or ValueError where it is not UTF-8."""
    return path.read_bytes().decode("utf-8-sig")


def unreadable(path: object, error: Exception) -> str:
    """Why a file cannot be read, in a sentence."""
    if isinstance(error, UnicodeDecodeError):
        return f"{path} is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
    if isinstance(error, FileNotFoundError):
        return f"there is no file {path}"
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder"
    reason = getattr(error, "strerror", None) or str(error)
    return f"{path} cannot be read: {reason}"


@lru_cache(maxsize=64)
def _parsed(text: str, name: str, *, keep: bool) -> ParseResult:
    """Trees are never changed, so a text is parsed once in a process; a file that was edited is another text. `keep`:
    also on disk."""
    if keep:
        return parse_kept(text, name)
    from apportion.grammar.parse import parse  # takes long

    return parse(text, name)


def _key(path: Path) -> str:
    return str(path.resolve())


@define
class _Reader:
    """Reads each file once; `open` are the files being read, with the `use` that led to each."""

    units: list[Unit] = Factory(list)
    statements: list[tuple[tree.Statement, Unit]] = Factory(list)
    diagnostics: list[Diagnostic] = Factory(list)
    done: set[str] = Factory(set)
    open: dict[str, Span | None] = Factory(dict)
    used_at: Span | None = None
    broken: bool = False
    missing: bool = False
    lost: set[str] = Factory(set)

    @property
    def complete(self) -> bool:
        """Whether every statement of every file was read."""
        return not (self.broken or self.missing)

    def error(self, code: str, span: Span | None, message: str, **more: object) -> None:
        """Record an error."""
        self.diagnostics.append(Diagnostic(code, Severity.error, message, span, **more))  # type: ignore[arg-type]

    def unit(self, text: str, name: str, folder: Path, key: str | None, *, is_root: bool) -> Unit | None:
        """Read one file, then what it uses."""
        if self._other_language(text, name):
            self.missing = True
            return None
        result = _parsed(text, name, keep=key is not None)
        self.diagnostics.extend(result.diagnostics)
        self.broken |= result.file is None
        self.lost |= result.lost or set()
        self.missing |= result.lost is None
        file = result.file or result.sound
        if file is None:
            self.missing = True
            return None
        unit = Unit(file.span.source, file, is_root)
        self.units.append(unit)
        if result.file is not None and not self._check_structure(unit):
            self.missing = True
            return unit
        if key is not None:
            self.open[key] = self.used_at
        for statement in file.statements:
            if isinstance(statement, tree.Use):
                self._use(statement, folder)
            else:
                self.statements.append((statement, unit))
        if key is not None:
            del self.open[key]
        return unit

    def _other_language(self, text: str, name: str) -> bool:
        """The version is looked at before anything else: another one may have another grammar."""
        match = _HEADER.match(text)
        if match is None or int(match.group(1)) == LANGUAGE:
            return False
        version = int(match.group(1))
        span = Span(Source(name, text), match.start(1), match.end(1))
        help = (
            "install a newer version of apportion" if version > LANGUAGE else "the first version is `language 1`"
        )
        self.error("A501", span, f"this file is written in version {version} of the language, and this engine reads "
                   f"version {LANGUAGE}", help=help)
        return True

    # --- use -------------------------------------------------------------------------------------------------------

    def _use(self, use: tree.Use, folder: Path) -> None:
        path = _locate(use.path, folder)
        key = _key(path)
        if key in self.open:
            self._cycle(use, key)
            return
        if key in self.done:
            return
        try:
            text = read_text(path)
        except (OSError, ValueError) as error:
            message = f'`use "{use.path}"`: {unreadable(_shown(path), error)}'
            self.error("A010", use.span, message, help=_near(use.path, path))
            self.missing = True
            return
        self.done.add(key)
        outer, self.used_at = self.used_at, use.span
        self.unit(text, _shown(path), path.parent, key, is_root=False)
        self.used_at = outer

    def _cycle(self, use: tree.Use, key: str) -> None:
        chain = list(self.open)
        labels = [Label(span, "which is used here") for name in chain[chain.index(key) + 1 :]
                  if (span := self.open[name]) is not None]
        self.error("A008", use.span, f'`use "{use.path}"` goes round in a circle',
                   label="comes back to a file that is being read", labels=tuple(labels))

    # --- what may stand in a file ----------------------------------------------------------------------------------

    def _check_structure(self, unit: Unit) -> bool:
        statements = unit.file.statements
        headers = [statement for statement in statements if isinstance(statement, tree.BackendDecl)]
        if not unit.is_root:
            return self._check_used(unit, headers)
        for extra in headers[1:]:
            self.error("A009", extra.span, "a file is about one backend",
                       labels=(Label(headers[0].span, "it is named here"),))
        if headers and statements[0] is not headers[0]:
            self.error("A010", headers[0].span, "`backend` is the first statement of a file",
                       labels=(Label(statements[0].span, "this stands before it"),))
        if not headers:
            self._check_library(unit)
        for kind, what in ((tree.PartitionBlock, "partition"), (tree.Preserve, "preserve")):
            blocks = [statement for statement in statements if isinstance(statement, kind)]
            for extra_block in blocks[1:]:
                self.error("A009", extra_block.span, f"a file has one `{what}`",
                           labels=(Label(blocks[0].span, "the first one"),))
        return True

    def _check_used(self, unit: Unit, headers: list[tree.BackendDecl]) -> bool:
        if headers:
            labels = () if self.used_at is None else (Label(self.used_at, "it is used here"),)
            self.error("A010", headers[0].span, "a backend's file cannot be used by another", labels=labels,
                       help="put what both need into a file without `backend`")
            return False
        self._check_library(unit)
        return True

    def _check_library(self, unit: Unit) -> None:
        for statement in unit.file.statements:
            what = _NOT_IN_LIBRARIES.get(type(statement))
            if what is not None:
                self.error("A010", statement.span, f"a library has no {what}",
                           help="only a file that starts with `backend` does")


_NOT_IN_LIBRARIES = {
    tree.PartitionBlock: "`partition` block",
    tree.Preserve: "`preserve`",
    tree.Emit: "`emit` of its own",
}


def _locate(text: str, folder: Path) -> Path:
    name = text if text.endswith(SUFFIX) else text + SUFFIX
    return shipped_folder() / name if text.startswith("std/") else folder / name


def _shown(path: Path) -> str:
    """A path as messages show it: relative to the shipped files or the working folder where it lies there."""
    for base in (shipped_folder(), Path.cwd()):
        try:
            return path.resolve().relative_to(base.resolve()).as_posix()
        except ValueError:
            continue
    return path.as_posix()


def _near(text: str, path: Path) -> str | None:
    try:
        names = [other.stem for other in path.parent.glob(f"*{SUFFIX}")]
    except OSError:
        return None
    near = nearest(path.stem, names)
    if not near:
        return None
    prefix = text[: text.rindex("/") + 1] if "/" in text else ""
    return "did you mean " + " or ".join(f'`use "{prefix}{name}"`' for name in near) + "?"

