"""What is easy to get wrong about overlaps, by name; and files that no linter should trip over."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.engine.lint import lint, smt
from apportion.engine.lint.model import RuleFile
from apportion.engine.lint.overlap import Verdict, covered, examine
from apportion.engine.load import parse_rules

CONV = "y = aten.convolution.default(x, w, b)"
MEAN = "y = aten.mean.dim(x)"
RELU = "y = aten.relu.default(x)"


def models(match: str, *requirements: str, head: str = "") -> RuleFile:
    rules = [f"rule r{i} {{ match {match} {text} }}" for i, text in enumerate(requirements)]
    return RuleFile(parse_rules("\n".join(['backend "Acme" language 1', head, *rules])))


def verdict(match: str, one: str, other: str, head: str = "") -> Verdict:
    file = models(match, f"require {one}", f"require {other}", head=head)
    return examine(*file.models)


@pytest.mark.parametrize(
    ("match", "one", "other", "kind"),
    [
        # shape[-1] and shape[1] are one dim at rank 2, and two at rank 3
        (RELU, "x.rank == 2 and x.shape[-1] == 4", "x.shape[1] == 5", "disjoint"),
        (RELU, "x.rank == 3 and x.shape[-1] == 4", "x.shape[1] == 5", "overlap"),
        # `all` of nothing is true, so contradictory `all`s meet in the empty list, unless it can't be empty
        (RELU, "all(d == 1 for d in x.shape)", "all(d == 2 for d in x.shape)", "overlap"),
        (RELU, "x.rank > 0 and all(d == 1 for d in x.shape)", "all(d == 2 for d in x.shape)", "disjoint"),
        (CONV, "all(s == 1 for s in y.stride)", "all(s == 2 for s in y.stride)", "disjoint"),
        # dims are counted from the front, each with its own rank
        (MEAN, "x.rank == 4 and y.dim == [2, 3]", "y.dim == [-2, -1]", "disjoint"),
        # one group and one channel: dense and depthwise at once
        (CONV, "y.groups == 1", "y.groups == x.shape[1]", "overlap"),
        (CONV, "y.groups == 1 and x.shape[1] > 1", "y.groups == x.shape[1]", "disjoint"),
        # an index out of range makes a condition unknown, and unknown satisfies nothing
        (RELU, "x.rank == 1 and not (x.shape[1] == 4)", "x.rank == 1", "disjoint"),
        # bounds that push each other up for ever
        (RELU, "x.shape[0] > x.shape[1]", "x.shape[1] > x.shape[0]", "disjoint"),
        # a quotient below zero in a product
        (CONV, "w.rank == 4 and x.shape[1] >= 1", "w.shape[2] * w.shape[3] >= 100 "
         "and w.shape[2] * w.shape[3] * align_up(x.shape[1], 16) <= 65535", "overlap"),
        # division by zero is unknown, too
        (RELU, "x.shape[0] % 0 == 0", "x.rank == 2", "disjoint"),
        # a slice that ends at the rank of another tensor
        (MEAN, "x.rank == 2 and all(d == 0 for d in y.dim[2 * (x.rank - 2):])", "y.dim == [1]", "disjoint"),
    ],
)
def test_traps(match: str, one: str, other: str, kind: str) -> None:
    found = verdict(match, one, other)
    assert found.kind == kind, found
    assert (found.witness is not None) == (kind == "overlap")


def test_dims_written_from_the_back_are_those_from_the_front() -> None:
    file = RuleFile(parse_rules('backend "A" language 1\n'
                                "rule a { match y = aten.mean.dim(x, [-2, -1]) require x.rank == 4 }\n"
                                "rule b { match y = aten.mean.dim(x, [2, 3]) require x.rank == 4 }"))
    assert covered(file.models[1], [file.models[0]]) and covered(file.models[0], [file.models[1]])


@pytest.mark.parametrize("asked", ["host(x)", "flops(y) < 100", "possible(x.shape[0] == 4)"])
def test_nothing_is_hidden_by_what_may_refuse(asked: str) -> None:
    file = models(RELU, f"require {asked}", "require x.rank == 2", head="extern host(n)")
    assert not covered(file.models[1], [file.models[0]])


def test_what_partitions_decide_hides_nothing() -> None:
    file = models(RELU, "require len(nodes) > 2", "require x.rank == 2")
    assert not covered(file.models[1], [file.models[0]])


def test_a_promise_and_opposite_polarity_are_proofs() -> None:
    head = "extern small(n)\nextern large(n)\ndisjoint small, large"
    assert verdict(RELU, "small(x)", "large(x)", head).kind == "disjoint"
    assert verdict(RELU, "small(x)", "not small(x)", head).kind == "disjoint"
    assert verdict(RELU, "small(x)", "large(y)", head).code == "A901"


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("option bits: int = 4\nrule r { MATCH when option.bits == 4 }",
         "option bits: int = 8\nrule s { MATCH when option.bits == 8 }", "overlap"),
        ("option on: bool = true\nrule r { MATCH when option.on }",
         "option on: bool = true\nrule s { MATCH when not option.on }", "overlap"),
        ('option to: set of {"a", "b"} = {"a"}\nrule r { MATCH when "a" in option.to }',
         'option to: set of {"a", "b"} = {"a"}\nrule s { MATCH when not ("a" in option.to) }', "overlap"),
        ("extern small(n)\nrule r { MATCH require small(x) }",
         "extern small(n)\nrule s { MATCH require not small(x) }", "undecided"),
        ("extern small(n)\nextern large(n)\ndisjoint small, large\nrule r { MATCH require small(x) }",
         "extern small(n)\nextern large(n)\nrule s { MATCH require large(x) }", "undecided"),
        ('meta m: str = "one.at"\nrule r { MATCH require y.meta.m == "p" }',
         'meta m: str = "two.at"\nrule s { MATCH require y.meta.m == "q" }', "overlap"),
        ('meta m: str = "one.at"\nrule r { MATCH require y.meta.m == "p" }',
         'meta n: str = "one.at"\nrule s { MATCH require y.meta.n == "q" }', "disjoint"),
        ("rule r { MATCH let n = len(nodes) require n > 2 }",
         "rule r { MATCH let n = len(nodes) require not n > 2 }", "overlap"),
    ],
)
@pytest.mark.parametrize("backends", ["AB", "AA"])
def test_what_two_files_call_by_one_name_is_two(
    tmp_path: Path, first: str, second: str, kind: str, backends: str
) -> None:
    files = [tmp_path / "first.rules", tmp_path / "second.rules"]
    for path, text, backend in zip(files, (first, second), backends, strict=True):
        path.write_text(f'backend "{backend}" language 1\n' + text.replace("MATCH", f"match {RELU}"), encoding="utf-8")
    assert {k for k, number in lint(files).pairs.items() if number} == {kind}


def test_what_two_rules_ask_of_their_partitions_are_two_conditions() -> None:
    file = models(RELU, "let n = len(nodes) require n > 2", "let n = len(nodes) require not n > 2")
    assert examine(*file.models).kind == "overlap"


def test_the_rest_of_a_long_list_is_the_same_only_where_the_names_mean_the_same() -> None:
    few, many = "require x.rank == 12 and sum(d * k for d in x.shape) > 0", "require sum(d * k for d in x.shape) <= 0"
    assert examine(*models(RELU, f"let k = 2 {few}", f"let k = 2 {many}").models).kind == "disjoint"
    assert examine(*models(RELU, f"let k = 2 {few}", f"let k = 0 {many}").models).kind != "disjoint"


def test_a_catch_all_gives_one_error(tmp_path: Path) -> None:
    path = tmp_path / "acme.rules"
    rules = [f"rule r{n} {{ match {RELU} require x.rank == {n} and x.dtype != int8 }}" for n in range(1, 5)]
    path.write_text('backend "A" language 1\nrule all { match y = aten.relu.default(x) require x.dtype != float16 }\n'
                    + "\n".join(rules), encoding="utf-8")
    errors = [d for d in lint(path).diagnostics if d.is_error]
    assert len(errors) == 1 and "rule `all`" in errors[0].message and len(errors[0].labels) == 4


# --- bad input -----------------------------------------------------------------------------------------------------


def codes(path: Path, text: bytes) -> set[str]:
    path.write_bytes(text)
    return {d.code for d in lint(path).diagnostics}


def test_a_cycle_of_use_shows_both_places(tmp_path: Path) -> None:
    (tmp_path / "b.rules").write_text('use "a.rules"\n', encoding="utf-8")
    path = tmp_path / "a.rules"
    text = 'backend "A" language 1\nuse "b.rules"\nrule r { match y = aten.relu.default(x) }\n'
    path.write_text(text, encoding="utf-8")
    result = lint(path)
    assert result.status() == 2 and any(d.code == "A008" and d.labels for d in result.diagnostics), result


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"", b"\x00" * 64, "rule é".encode("latin-1")])
def test_bytes_that_are_no_rules(tmp_path: Path, text: bytes) -> None:
    found = codes(tmp_path / "a.rules", text)
    assert found and all(code.startswith("A0") for code in found)


def test_deep_nesting_ends_with_a_message(tmp_path: Path) -> None:
    deep = "(" * 4000 + "x.rank == 2" + ")" * 4000
    text = f'backend "A" language 1\nrule r {{ match y = aten.relu.default(x) require {deep} }}\n'
    assert all(code.startswith("A0") for code in codes(tmp_path / "a.rules", text.encode()))


def test_what_can_not_be_read(tmp_path: Path) -> None:
    result = lint([tmp_path / "absent.rules", tmp_path])
    assert result.status() == 2 and len(result.diagnostics) == 2


@pytest.mark.parametrize("line", ["# " + "a" * 97 + "\n", "rule r { match y = aten.relu.default(x) }\n", "((((", "\""])
def test_ten_megabytes_end_with_a_message(tmp_path: Path, line: str) -> None:
    text = 'backend "A" language 1\n' + line * (10_000_000 // len(line))
    assert codes(tmp_path / "a.rules", text.encode()) == {"A011"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first, operator", [
    ("x.rank == 3", "and"), ("x.shape[-1] % 3 == x.rank", "or"), ("x.stride[0] == 3", "or"),
    ("x.rank", "+"), ("x.shape[-1]", "+"), ("x.rank", "*"), ("x.shape[0]", "*"), ("x.shape[0] % x.shape[1]", "*"),
])
def test_names_made_of_names_are_read_once(first: str, operator: str) -> None:
    """Written out, the last of them is two to the power of forty times as long."""
    names = "".join(f" let n{i} = n{i - 1} {operator} n{i - 1}" for i in range(1, 41))
    last = "n40" if operator in ("and", "or") else "n40 > 3"
    file = models(RELU, *(f"let n0 = {first}{names} require {asks}" for asks in (last, f"not ({last})")))
    assert examine(*file.models).kind == "disjoint"


@pytest.mark.full
def test_a_long_file_is_read(tmp_path: Path) -> None:
    line = "# " + "a" * 97 + "\n"
    text = 'backend "A" language 1\n' + line * 40_000 + "rule r { match y = aten.relu.default(x) }\n"
    assert not codes(tmp_path / "a.rules", text.encode())


# --- the last resort -----------------------------------------------------------------------------------------------

SQUARE = "x.rank == 2 and x.shape[0] * x.shape[0] == x.shape[1] * 2 + 1"
EVEN = "x.shape[1] > 5 and x.shape[0] % 2 == 0"


def test_z3_decides_what_bounds_leave_open() -> None:
    pytest.importorskip("z3")
    assert verdict(RELU, SQUARE, EVEN).kind == "disjoint"
    found = verdict(RELU, "x.rank == 2 and x.shape[0] * x.shape[1] == 10403", "x.shape[0] > 1 and x.shape[1] > 1")
    assert found.kind == "overlap"


def test_without_z3_it_is_undecided_and_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "_z3", lambda: None)
    path = tmp_path / "a.rules"
    rules = [f"rule r{i} {{ match {RELU} require {text} }}" for i, text in enumerate((SQUARE, EVEN))]
    path.write_text("\n".join(['backend "A" language 1', *rules]), encoding="utf-8")
    (found,) = lint(path).diagnostics
    assert found.code == "A902" and "apportion[lint]" in (found.help or "")
