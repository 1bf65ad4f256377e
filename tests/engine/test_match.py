"""Every form of a pattern, on small real programs: what it claims, what it leaves, and why."""

from __future__ import annotations

import pytest
import torch

from apportion import engine
from tests.engine.programs import exported, header, tags


def claimed(program, rules: str) -> set[str]:
    engine.partition(program, engine.parse_rules(header(rules)))
    return set(tags(program))


def reason(program, rules: str, node: str) -> str:
    return engine.partition(program, engine.parse_rules(header(rules))).report.reason(node).message


def forked():
    def fork(x):
        s = torch.sin(x)
        return torch.relu(s), torch.neg(s)

    return exported(fork, torch.randn(3))


def matmul():
    return exported(lambda a, b: torch.relu(a @ b), torch.randn(3, 3), torch.randn(3, 3))


def joined():
    return exported(lambda a, b: torch.relu(torch.cat([torch.sin(a), torch.sin(b)])), torch.randn(3), torch.randn(3))


def test_single_use_holds_back_a_value_with_another_user() -> None:
    assert claimed(forked(), "rule r { match y = aten.relu.default(aten.sin.default(x)) }") == set()


def test_shared_lifts_single_use() -> None:
    assert claimed(forked(), "rule r { match y = aten.relu.default(shared aten.sin.default(x)) }") == {"sin", "relu"}


def test_a_shared_node_is_in_two_matches_and_one_partition() -> None:
    program = forked()
    rules = """
    rule r { match { s = shared aten.sin.default(x) y = aten.relu.default(s) } }
    rule n { match { s = shared aten.sin.default(x) y = aten.neg.default(s) } }
    partition { merge = "none" }
    """
    result = engine.partition(program, engine.parse_rules(header(rules)))
    (only,) = result.partitions
    assert only.matches == (("r", ("sin", "relu")), ("n", ("sin", "neg")))


def test_several_roots() -> None:
    rules = "rule r { match { s = aten.sin.default(x) y = aten.relu.default(s) n = aten.neg.default(s) } }"
    assert claimed(forked(), rules) == {"sin", "relu", "neg"}


def test_an_output_of_the_graph_is_used_outside() -> None:
    def both(x):
        s = torch.sin(x)
        return s, torch.relu(s)

    program = exported(both, torch.randn(3))
    rules = "rule r { match y = aten.relu.default(aten.sin.default(x)) }"
    assert claimed(program, rules) == set()
    assert "output of the graph" in reason(program, rules, "relu")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("n = aten.neg.default(s)", {"relu"}),
        ("s = aten.sin.default(q)", {"relu"}),
        ("s = aten.cos.default(q)", set()),
        ("n = aten.exp.default(s)", set()),
    ],
)
def test_given_looks_up_and_down_and_claims_nothing(given: str, found: set[str]) -> None:
    assert claimed(forked(), f"rule r {{ match y = aten.relu.default(s) given {{ {given} }} }}") == found


def test_names_of_given_are_seen_by_requirements() -> None:
    rules = """rule r { match y = aten.relu.default(s) given { s = aten.sin.default(q) }
                        require q is user_input and q.rank == 1 }"""
    assert claimed(forked(), rules) == {"relu"}


@pytest.mark.parametrize(
    "match",
    [
        "{ d = aten.sin.default(x) y = aten.cat.default(*d) }",
        "{ y = aten.cat.default(*aten.sin.default(x)) }",
        "{ y = aten.cat.default([aten.sin.default(a), aten.sin.default(b)]) }",
        "{ y = aten.cat.default([aten.sin.default(a), *aten.sin.default(b)]) }",
    ],
)
def test_lists(match: str) -> None:
    assert claimed(joined(), f"rule r {{ match {match} }}") == {"sin", "sin_1", "cat"}


def test_names_inside_a_star_are_parallel_lists() -> None:
    rules = """rule r { match { d = aten.sin.default(x) y = aten.cat.default(*d) }
                        require len(d) == 2 and len(x) == 2 and all(i is user_input for i in x) }"""
    assert claimed(joined(), rules) == {"sin", "sin_1", "cat"}


def test_a_star_of_a_plain_name_claims_the_call_alone() -> None:
    rules = "rule r { match y = aten.cat.default(*d) require all(i.op == aten.sin.default for i in d) }"
    assert claimed(joined(), rules) == {"cat"}


def test_elements_that_do_not_all_fit() -> None:
    program = exported(lambda a, b: torch.cat([torch.sin(a), torch.cos(b)]), torch.randn(3), torch.randn(3))
    assert claimed(program, "rule r { match y = aten.cat.default(*aten.sin.default(x)) }") == set()


def test_the_same_tensor_twice_in_a_list() -> None:
    program = exported(lambda a: torch.cat([a, a]), torch.randn(3))
    assert claimed(
        program, "rule r { match y = aten.cat.default(*x) require len(x) == 2 and len(distinct(x)) == 1 }"
    ) == {"cat"}


@pytest.mark.parametrize(
    "match",
    [
        "{ t = aten.topk.default(x, 2) y = aten.relu.default(t[0]) }",
        "y = aten.relu.default(aten.topk.default(x, k)[0])",
    ],
)
def test_outputs_by_index(match: str) -> None:
    program = exported(lambda a: torch.relu(torch.topk(a, 2)[0]), torch.randn(5))
    assert claimed(program, f"rule r {{ match {match} }}") == {"topk", "getitem", "relu"}
    assert claimed(program, f"rule r {{ match {match.replace('[0]', '[1]')} }}") == set()


def test_an_optional_node_is_taken_where_it_is() -> None:
    rules = "rule r { match { m = aten.mm.default(a, b) z = aten.relu.default(m)? } emit act = present(z) }"
    program = matmul()
    result = engine.partition(program, engine.parse_rules(header(rules)))
    assert set(tags(program)) == {"mm", "relu"}
    (spec,) = result.partition_tags.values()
    assert [(s.key, s.value) for s in spec.compile_specs] == [("act", b"true")]


def test_an_optional_node_that_fails_its_own_guard_is_left_out() -> None:
    rules = """rule r { match { m = aten.mm.default(a, b) z = aten.relu.default(m)? }
                        require present(z) implies z.rank == 3 }"""
    assert claimed(matmul(), rules) == {"mm"}


def test_an_optional_node_inside_a_term() -> None:
    program = exported(lambda a: torch.exp(torch.sin(a)), torch.randn(3))
    assert claimed(program, "rule r { match y = aten.exp.default(aten.relu.default(aten.sin.default(x))?) }") == {
        "exp",
        "sin",
    }


def test_named_patterns_bind_roles_from_different_arguments() -> None:
    text = """
    pattern product(x, w, b?) = aten.mm.default(x, w) | aten.addmm.default(b, x, w)
    rule r {{ match y = product(p, q, c) require {} }}
    """
    program = matmul()
    assert claimed(program, text.format("c is none and p.name == q.name or c is none")) == {"mm"}
    added = exported(lambda a, b, c: torch.addmm(c, a, b), torch.randn(3, 3), torch.randn(3, 3), torch.randn(3))
    assert claimed(added, text.format("c.rank == 1 and p.rank == 2")) == {"addmm"}


def test_roles_that_are_computed() -> None:
    text = """
    pattern scaled(x, k) = aten.mul.Tensor(x, 3) with k = 3 | aten.neg.default(x) with k = -1
    rule r { match y = scaled(x, k) require k < 0 }
    """
    program = exported(lambda a: torch.neg(a * 3), torch.randn(3))
    assert claimed(program, text) == {"neg"}


def test_through_walks_and_claims() -> None:
    program = exported(lambda a: torch.relu(torch.sin(a).permute(1, 0).permute(1, 0)), torch.randn(2, 3))
    rules = """rule r {{ match {{ s = aten.sin.default(x) y = aten.relu.default(through{{aten.permute.default}}(s)) }}
                          require {} }}"""
    assert claimed(program, rules.format("walked(s)")) == {"sin", "permute", "permute_1", "relu"}
    assert claimed(program, rules.format("not walked(s)")) == set()


def test_alternatives_of_whole_matches() -> None:
    rules = """rule r { match { y = aten.relu.default(aten.sin.default(x)) }
                            | { y = aten.relu.default(aten.mm.default(a, x)) } }"""
    assert claimed(matmul(), rules) == {"mm", "relu"}


def test_literals_none_and_numbers() -> None:
    program = exported(lambda a: torch.clamp(a, min=0.0), torch.randn(3))
    assert claimed(program, "rule r { match y = aten.clamp.default(x, 0, none) }") == {"clamp"}
    assert claimed(program, "rule r { match y = aten.clamp.default(x, min: 0.0) }") == {"clamp"}
    assert claimed(program, "rule r { match y = aten.clamp.default(x, low) require low is float and low == 0 }") == {
        "clamp"
    }
    assert claimed(program, "rule r { match y = aten.clamp.default(x, 0, 6) }") == set()


def test_view_stands_for_its_copying_twin() -> None:
    program = exported(lambda a: torch.relu(a).view(6), torch.randn(2, 3))
    assert claimed(program, "rule r { match y = aten.view.default(x) }") == {"view"}
    assert claimed(program, "rule r { match y = aten.view_copy.default(x) }") == set()


def test_the_pattern_that_came_furthest_is_the_reason() -> None:
    found = reason(matmul(), "rule r { match y = aten.relu.default(aten.add.Tensor(a, b)) }", "relu")
    assert "`aten.add.Tensor` was expected, and `mm` (aten.mm.default) stands there" in found


def test_over_beats_size() -> None:
    rules = """
    rule small over big { match y = aten.relu.default(x) }
    rule big { match y = aten.relu.default(aten.mm.default(a, b)) }
    rule lone { match y = aten.mm.default(a, b) }
    """
    result = engine.partition(matmul(), engine.parse_rules(header(rules)))
    assert sorted(name for p in result.partitions for name, _ in p.matches) == ["lone", "small"]


def test_more_nodes_win_without_over() -> None:
    rules = """
    rule small { match y = aten.relu.default(x) }
    rule big { match y = aten.relu.default(aten.mm.default(a, b)) }
    """
    result = engine.partition(matmul(), engine.parse_rules(header(rules)))
    assert [m for p in result.partitions for m in p.matches] == [("big", ("mm", "relu"))]
