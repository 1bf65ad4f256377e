"""Loading: shipped files and paths, `use`, options, and files that are none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apportion.engine.compile.options import option_from_text
from apportion.engine.errors import ApportionError, OptionError, RulesError, RulesNotFoundError
from apportion.engine.load import check_file, is_library, load_rules, parse_rules, shipped_rules, with_options

HEADER = 'backend "Test" language 1\n'
RELU = "rule relu { match y = aten.relu.default(x) }\n"


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".rules")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", shipped_rules())
def test_shipped_files_load(name: str) -> None:
    rules = load_rules(name)
    assert rules.rules
    assert rules.name == f"{name}.rules"
    assert check_file(name) == list(rules.warnings)


@pytest.mark.parametrize("name", ["std/ops", "std/quant", "std/linear"])
def test_the_library_is_sound(name: str) -> None:
    assert check_file(name) == []
    assert is_library(name)


def test_loading_needs_torch_alone() -> None:
    code = (
        "import sys\nfrom apportion.engine.load import load_rules\nload_rules('xnnpack')\n"
        "assert not {m for m in sys.modules if m.split('.')[0] in ('executorch', 'torchao')}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_is_none() -> None:
    with pytest.raises(RulesNotFoundError, match="did you mean `xnnpack`"):
        load_rules("xnpack")
    with pytest.raises(FileNotFoundError):
        load_rules("no/such/file.rules")
    assert issubclass(RulesNotFoundError, ApportionError)


def test_a_path_with_a_used_file(tmp_path: Path) -> None:
    tanh = "rule tanh { match y = aten.tanh.default(x) }"
    write(tmp_path, main=HEADER + 'use "parts/more"\n' + RELU, parts__more=tanh)
    rules = load_rules(tmp_path / "main.rules")
    assert [rule.name for rule in rules.rules] == ["tanh", "relu"]
    assert [rule.position for rule in rules.rules] == [0, 1]
    assert [Path(source.name).name for source in rules.sources] == ["main.rules", "more.rules"]
    assert [Path(rule.source_name).name for rule in rules.rules] == ["more.rules", "main.rules"]


def test_a_file_used_twice_counts_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        main=HEADER + 'use "a"\nuse "b"\n',
        a='use "c"\nlet one = three\n',
        b='use "c.rules"\nlet two = three\n',
        c="let three = 3\nrule r { match y = aten.relu.default(x)  require x.rank == three }\n",
    )
    assert [rule.name for rule in load_rules(tmp_path / "main.rules").rules] == ["r"]


def test_a_library_is_checked_but_not_loaded(tmp_path: Path) -> None:
    write(tmp_path, lib="let three = 3\n", broken="let three = four\n", empty="# nothing\n")
    assert check_file(tmp_path / "lib.rules") == []
    with pytest.raises(RulesError, match="is a library, only for `use`"):
        load_rules(tmp_path / "lib.rules")
    with pytest.raises(RulesError, match="the file is empty"):
        load_rules(tmp_path / "empty.rules")
    assert [d.code for d in check_file(tmp_path / "broken.rules")] == ["A005"]
    assert [d.code for d in check_file(tmp_path / "empty.rules")] == ["A010"]


def test_every_error_of_a_file_and_of_what_it_uses(tmp_path: Path) -> None:
    write(tmp_path, main=HEADER + 'use "lib"\nlet a = nowhere\n', lib="let b = nothing\n")
    with pytest.raises(RulesError) as caught:
        load_rules(tmp_path / "main.rules")
    assert len(caught.value.diagnostics) == 2
    assert "nowhere" in str(caught.value) and "nothing" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff\xfe", "is not UTF-8 text"), (b"backend \x00", "A001"), (b"", "the file is empty")],
)
def test_bytes_that_are_no_rules(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "odd.rules"
    path.write_bytes(content)
    with pytest.raises(RulesError, match=said):
        load_rules(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(RulesNotFoundError, match="is a folder"):
        load_rules(tmp_path)


def test_a_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "bom.rules"
    path.write_bytes(b"\xef\xbb\xbf" + (HEADER + RELU).replace("\n", "\r\n").encode())
    assert load_rules(path).backend_id == "Test"


def test_a_string_has_a_name() -> None:
    with pytest.raises(RulesError, match=r"acme\.rules:2:9"):
        parse_rules(HEADER + "let a = nowhere.dtype\n", name="acme.rules")


def test_an_older_or_newer_language() -> None:
    for version in (0, 2, 99):
        with pytest.raises(RulesError, match=f"version {version} of the language") as caught:
            parse_rules(f'backend "T" language {version}\nwhatever <<< this is\n')
        assert [d.code for d in caught.value.diagnostics] == ["A501"]


# --- options ---------------------------------------------------------------------------------------------------

OPTIONS = HEADER + """
option precisions: set of {float, int8} = {"float"}  "engines"
option mode: {fast, exact} = "exact"
option size: int = 3
option share: float = 0.5
option on: bool = false
option title: str = "t"
rule a { match y = aten.relu.default(x)  when "float" in option.precisions  require x.rank == option.size }
rule b { match y = aten.tanh.default(x)  when "int8" in option.precisions and option.mode == "fast" }
partition { min_nodes = option.size + 1  merge = "all" if option.on else "none" }
emit title = option.title
"""


def test_defaults() -> None:
    rules = parse_rules(OPTIONS)
    assert dict(rules.options) == {
        "precisions": frozenset({"float"}), "mode": "exact", "size": 3, "share": 0.5, "on": False, "title": "t",
    }  # fmt: skip
    assert [rule.name for rule in rules.rules] == ["a"]
    assert [rule.name for rule in rules.absent] == ["b"]
    assert rules.policy.min_nodes == 4
    assert rules.policy.merge == "none"
    assert rules.option_decls["precisions"].doc == "engines"
    assert rules.emits[0].evaluate([]) == "t"


def test_values_of_the_caller() -> None:
    given: dict[str, Any] = {"precisions": ["int8"], "mode": "fast", "size": 7, "share": 1, "on": True, "title": "ü"}
    rules = parse_rules(OPTIONS, options=given)
    assert [rule.name for rule in rules.rules] == ["b"]
    assert rules.rules[0].position == 1
    assert rules.policy.min_nodes == 8
    assert rules.policy.merge == "all"
    assert rules.options["share"] == 1.0
    assert rules.options["precisions"] == frozenset({"int8"})


def test_with_options_keeps_the_others() -> None:
    rules = parse_rules(OPTIONS, options={"size": 5})
    again = with_options(rules, {"on": True})
    assert (again.options["size"], again.options["on"], rules.options["on"]) == (5, True, False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sise": 3}, "there is no option 'sise'; did you mean 'size'"),
        ({"nothing": 3}, "known: mode, on, precisions, share, size, title"),
        ({"size": "3"}, "option size is an int, not '3'"),
        ({"size": True}, "option size is an int, not True"),
        ({"size": 3.5}, "option size is an int"),
        ({"on": 1}, "option on is a bool"),
        ({"mode": "fsat"}, "one of \"exact\", \"fast\", not 'fsat'; did you mean 'fast'"),
        ({"mode": None}, "option mode is one of"),
        ({"precisions": "int8"}, "option precisions is a set out of"),
        ({"precisions": {"int8", "int4"}}, "did you mean 'int8'"),
        ({"precisions": [["int8"]]}, "option precisions is a set out of"),
        ({"share": "half"}, "option share is a float"),
        ({"title": 3}, "option title is a str"),
    ],
)
def test_options_that_do_not_fit(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_rules(OPTIONS, options=given)
    assert said in str(caught.value)


def test_options_as_text() -> None:
    decls = parse_rules(OPTIONS).option_decls
    assert option_from_text(decls["precisions"], "float, int8") == frozenset({"float", "int8"})
    assert option_from_text(decls["precisions"], "") == frozenset()
    assert option_from_text(decls["size"], "12") == 12
    assert option_from_text(decls["on"], "true") is True
    assert option_from_text(decls["share"], "0.25") == 0.25
    assert option_from_text(decls["title"], "a b") == "a b"
    for name, text in (("size", "x"), ("on", "maybe"), ("mode", "slow"), ("precisions", "int4")):
        with pytest.raises(OptionError):
            option_from_text(decls[name], text)
