"""Public reports about constants, parameters and buffers, by their ids (what needs no lowering)."""

from __future__ import annotations

import torch

from apportion import engine
from tests.engine.programs import exported, header


def partition(program, rules, **arguments):
    return engine.partition(program, engine.parse_rules(header(rules)), **arguments)


LINEARS = "rule mm { match y = aten.mm.default(x, w) require w is constant }"


def shared_four(m, x):
    for _ in range(4):
        x = torch.relu(x @ m.weight)
    return x


def test_B9_copies_of_a_shared_weight_are_counted() -> None:
    weight = torch.nn.Parameter(torch.randn(8, 8))
    result = partition(exported(shared_four, torch.randn(2, 8), weight=weight), LINEARS)
    (coverage,) = result.report.coverage
    assert coverage.partitions == 4
    assert coverage.constant_bytes == 4 * 8 * 8 * 4
    assert coverage.duplicated_bytes == 3 * 8 * 8 * 4


def test_B9_unshared_keeps_the_weight_an_input() -> None:
    weight = torch.nn.Parameter(torch.randn(8, 8))
    program = exported(shared_four, torch.randn(2, 8), weight=weight)
    result = partition(program, LINEARS + ' partition { constants = "unshared" }')
    assert result.report.coverage[0].duplicated_bytes == 0
    assert all("p_weight" in p.inputs for p in result.partitions)
    assert "delegation_tag" not in next(iter(program.graph.nodes)).meta


def test_B10_a_slice_with_a_size_that_is_an_argument() -> None:
    class Slicing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(16, 4))

        def forward(self, x, n: int):
            return self.table[:n] + x

    program = torch.export.export(Slicing(), (torch.randn(4), 3)).run_decompositions()
    result = partition(program, "rule slice { match y = aten.slice.Tensor(x, dim, start, end) require x is constant }")
    assert result.report.claimed == 1


def test_B12_a_constant_has_the_tag_of_its_only_user() -> None:
    def many(m, x):
        return torch.relu(x @ m.a) @ m.b @ m.c

    state = {name: torch.nn.Parameter(torch.randn(4, 4)) for name in "abc"}
    tagged = []
    for order in ("abc", "cba", "bca"):
        program = exported(many, torch.randn(2, 4), **{name: state[name] for name in order})
        partition(program, LINEARS)
        nodes = {n.name: n for n in program.graph.nodes}
        tagged.append({name: nodes[f"p_{name}"].meta.get("delegation_tag") for name in "abc"})
        for name in "abc":
            (user,) = nodes[f"p_{name}"].users
            assert nodes[f"p_{name}"].meta["delegation_tag"] == user.meta["delegation_tag"]
    assert tagged[0] == tagged[1] == tagged[2]


def test_B7_an_update_in_place_is_not_owned_by_a_delegate() -> None:
    program = exported(lambda m, x: x + m.b.add_(x), torch.randn(3), b=torch.ones(3), decompose=False)
    result = partition(program, "rule add { match y = {aten.add.Tensor, aten.add_.Tensor}(a, b) }")
    for node in program.graph.nodes:
        if "add_." in str(node.target):
            assert "delegation_tag" not in node.meta
            assert result.report.reason(node.name).kind == "mutation"
