"""The contract of `to_backend`, check by check, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from apportion import engine
from apportion.engine.lowering import backend as backend_module
from tests.engine.lowering.checks import Tagger, compare, delegates, eager_rules, equal, ops_in


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu().sin()


class ContractBackend(engine.BackendDetails):
    """Notes what it is given; its delegates multiply by two."""

    seen: list[Any] = []
    started = 0

    @classmethod
    def initialize(cls) -> None:
        cls.started += 1

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[engine.CompileSpec]) -> engine.PreprocessResult:
        ContractBackend.seen.append((edge_program, compile_specs))
        for node in list(edge_program.graph.nodes):  # its own copy: it may do what it likes
            if node.op == "call_function" and not node.users:
                edge_program.graph.erase_node(node)
        for value in edge_program.state_dict.values():
            value.data.zero_()
        return engine.PreprocessResult(b"twice", {0: (1, 2)}, {"shared": b"data"}, "info")

    @classmethod
    def load(cls, processed_bytes: bytes, compile_specs: Any, named_data: Any = None) -> Any:
        assert processed_bytes == b"twice" and named_data == {"shared": b"data"}
        return lambda x: [x * 2]


class TogetherBackend(engine.BackendDetails):
    """Compiles all methods at once."""

    calls: list[dict[str, int]] = []
    answer = 0

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> engine.PreprocessResult:
        raise NotImplementedError

    @classmethod
    def preprocess_multimethod(cls, edge_programs: Any, compile_specs: Any) -> Any:
        cls.calls.append({name: len(several) for name, several in edge_programs.items()})
        return {name: [engine.PreprocessResult(name.encode())] * (len(several) + cls.answer)
                for name, several in edge_programs.items()}


class FailingBackend(engine.BackendDetails):
    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> engine.PreprocessResult:
        raise ValueError("no room on the device")


class BusyBackend(engine.BackendDetails):
    @staticmethod
    def preprocess(edge_program: Any, compile_specs: Any) -> engine.PreprocessResult:
        raise RuntimeError("the compiler is busy")


@pytest.fixture
def model() -> nn.Module:
    return Two()


@pytest.fixture
def program(model: nn.Module) -> Any:
    return torch.export.export(model, (torch.ones(2, 4),)).run_decompositions()


def relu_tagged(node: torch.fx.Node) -> str | None:
    return "t" if node.name == "relu" else None


def test_a_whole_program_by_the_name_of_a_class(program: Any) -> None:
    specs = [engine.CompileSpec("k", b"v")]
    ContractBackend.seen.clear()
    made = engine.to_backend("ContractBackend", program, specs)
    assert isinstance(made, engine.LoweredBackendModule)
    assert (made.backend_id, made.processed_bytes, made.compile_specs) == ("ContractBackend", b"twice", specs)
    assert made.original_module is program and made.named_data_store_output == {"shared": b"data"}
    assert made.meta == {"debug_handle_map": {0: (1, 2)}, "_delegate_info_meta": "info"}
    (given, its_specs), = ContractBackend.seen
    assert given is not program and its_specs == specs
    assert not torch.equal(program.state_dict["linear.weight"], torch.zeros(4, 4))  # the copy was zeroed, not this


def test_h6_a_backend_starts_once(program: Any) -> None:
    for _ in range(3):
        engine.to_backend("ContractBackend", program, [])
    engine.to_backend(program, Tagger(relu_tagged, "ContractBackend")).module()(torch.ones(2, 4))
    assert ContractBackend.started == 1


def test_a_delegate_is_callable_as_a_program_and_inside_one(program: Any, model: nn.Module) -> None:
    made = engine.to_backend("EagerBackend", program, [])
    x = torch.randn(2, 4)
    equal(made(x), model(x).detach())

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = made

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x + 1) * 2

    whole = torch.export.export(Around(), (x,), strict=False)
    assert "apportion_call_delegate" in ops_in(whole)
    equal(whole.module()(x), model(x + 1).detach() * 2)


def test_unknown_backends_are_not_implemented_and_near_ones_named(program: Any) -> None:
    with pytest.raises(NotImplementedError, match="ContractBakend was not found; did you mean ContractBackend"):
        engine.to_backend("ContractBakend", program, [])
    with pytest.raises(engine.ProgramError):
        engine.to_backend("ContractBackend", nn.Linear(1, 1), [])
    with pytest.raises(engine.ProgramError):
        engine.to_backend(nn.Linear(1, 1), None)


def test_a_subclass_of_a_backend_is_refused() -> None:
    with pytest.raises(TypeError, match="final"):
        type("Second", (ContractBackend,), {})


def test_further_forms_can_be_registered() -> None:
    class Mine:
        pass

    @engine.to_backend.register(Mine)
    def _(given: Any, word: str) -> str:
        return word * 2

    assert engine.to_backend(Mine(), "a") == "aa"


def test_the_partitioner_sees_fake_weights_and_the_delegate_real_ones(program: Any, model: nn.Module) -> None:
    from torch._subclasses.fake_tensor import FakeTensor

    seen = []

    class Looks(Tagger):
        def partition(self, given: Any) -> engine.PartitionResult:
            seen.append(given)
            return super().partition(given)

    wanted = Looks(lambda n: "t" if n.op == "call_function" or n.name.startswith("p_") else None)
    made = engine.to_backend(program, wanted)
    (given,) = seen
    assert given is not program and given.graph_module is not program.graph_module
    assert all(isinstance(value, FakeTensor) for value in given.state_dict.values())
    assert not any("delegation_tag" in node.meta for node in program.graph.nodes)
    assert not made.state_dict and not made.graph_signature.parameters
    (one,) = delegates(made)
    assert torch.equal(one.original_module.state_dict["linear.weight"], model.linear.weight)
    assert made.example_inputs is None and made.verifier is program.verifier
    compare(made, model, [(torch.randn(2, 4),)] * 2)


def test_a_deep_copy_with_a_warning_where_fake_weights_fail(
        program: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from apportion.engine.lowering import copies

    monkeypatch.setattr(copies, "_mode_of", lambda program: 1 / 0)
    with caplog.at_level(logging.WARNING, "apportion"):
        engine.to_backend(program, Tagger(relu_tagged))
    assert "copied as a whole" in caplog.text


class Changes(Tagger):
    """Breaks the rule that a partitioner only writes metadata."""

    def partition(self, program: Any) -> engine.PartitionResult:
        result = super().partition(program)
        node = next(n for n in program.graph.nodes if n.name == "sin")
        node.target = torch.ops.aten.cos.default
        program.graph_module.recompile()
        return result


def test_a_partitioner_that_changes_the_graph_is_refused(program: Any) -> None:
    with pytest.raises(AssertionError, match=r"Changes must not change the graph: node \d+ was .*sin.*cos"):
        engine.to_backend(program, Changes(relu_tagged))


def test_the_check_can_be_turned_off(program: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "apportion"), engine.validation_disabled():
        made = engine.to_backend(program, Changes(relu_tagged))
    assert "disabled" in caplog.text and "aten.cos.default" in ops_in(made)
    with pytest.raises(engine.ChangedGraphError):
        engine.to_backend(program, Changes(relu_tagged))


@pytest.fixture
def _validation() -> Iterator[None]:
    yield
    backend_module._Validation.enabled = True


@pytest.mark.usefixtures("_validation")
def test_the_check_can_be_turned_off_for_good(program: Any) -> None:
    engine.disable_validation()
    engine.to_backend(program, Changes(relu_tagged))


def test_partition_tags_none_names_the_partitioner(program: Any) -> None:
    class Lazy(Tagger):
        def partition(self, program: Any) -> engine.PartitionResult:
            return engine.PartitionResult(program, None)  # type: ignore[arg-type]

    with pytest.raises(AssertionError, match="Lazy gave no partition_tags"):
        engine.to_backend(program, Lazy(relu_tagged))


def test_tags_without_nodes_are_skipped(program: Any, model: nn.Module) -> None:
    class More(Tagger):
        def partition(self, program: Any) -> engine.PartitionResult:
            result = super().partition(program)
            tags = {"nobody": engine.DelegationSpec("FarawayBackend"), **result.partition_tags}
            return engine.PartitionResult(program, tags)

    made = engine.to_backend(program, More(relu_tagged))
    assert len(delegates(made)) == 1
    compare(made, model, [(torch.randn(2, 4),)] * 2)


@pytest.mark.parametrize("node, message", [
    ("relu", "the node relu is tagged 'stray', which partition_tags does not list"),
    ("output", "output"),
    ("x", "the placeholder x is no parameter, buffer or constant"),
])
def test_tags_where_none_may_be(program: Any, node: str, message: str) -> None:
    result = engine.PartitionResult(program, {"t": engine.DelegationSpec("EagerBackend")})
    for one in program.graph.nodes:
        if one.name == node:
            one.meta["delegation_tag"] = "stray" if node == "relu" else "t"
    with pytest.raises(RuntimeError, match=message):
        engine.to_backend(program, result)


def test_a_cyclic_tagging_is_refused_with_the_cycle(program: Any) -> None:
    names = [n.name for n in program.graph.nodes if n.op == "call_function"]
    with pytest.raises(engine.TagError, match=r"the tags make a cycle.*the delegate t -> relu"):
        engine.to_backend(program, Tagger(lambda n: "t" if n.name in names and n.name != "relu" else None))


def test_j8_a_failing_backend_names_partition_rule_and_nodes(program: Any, model: nn.Module) -> None:
    rules = eager_rules("aten.relu.default", backend="FailingBackend")
    result = engine.partition(program, rules)
    with pytest.raises(engine.PreprocessError) as caught:
        engine.to_backend(program, result)
    text = str(caught.value)
    assert all(word in text for word in ("FailingBackend", "no room on the device", "relu", "rules: any",
                                         next(iter(result.partition_tags))))
    assert caught.value.nodes == ("relu",) and isinstance(caught.value.__cause__, ValueError)


def test_j8_fallback_asks_the_next_backend_or_leaves_the_nodes(
        program: Any, model: nn.Module, caplog: pytest.LogCaptureFixture) -> None:
    result = engine.partition(program, eager_rules(backend="FailingBackend"))
    with caplog.at_level(logging.WARNING, "apportion"):
        made = engine.to_backend(program, result, fallback=["BusyBackend", "EagerBackend"])
    assert [one.backend_id for one in delegates(made)] == ["EagerBackend"]
    assert "no room on the device" in caplog.text and "the compiler is busy" in caplog.text
    compare(made, model, [(torch.randn(2, 4),)] * 2)
    left = engine.to_backend(program, result, fallback="graph")
    assert not delegates(left) and left.graph_signature.parameters
    compare(left, model, [(torch.randn(2, 4),)] * 2)


def test_j8_a_fallback_that_nobody_brings_is_an_error_before_it_is_needed(program: Any) -> None:
    result = engine.partition(program, eager_rules())
    with pytest.raises(engine.BackendNotFoundError, match="FarawayBackend"):
        engine.to_backend(program, result, fallback=["FarawayBackend", "EagerBackend"])


def test_several_methods_are_preprocessed_together(program: Any, model: nn.Module) -> None:
    TogetherBackend.calls.clear()
    tagger = Tagger(lambda n: f"{n.name}" if n.name in ("relu", "sin") else None, "TogetherBackend")
    spec = engine.MethodProgramsPartitionerSpec({"a": program, "b": program, "c": program}, {"a": tagger, "b": tagger})
    made = engine.to_backend(spec)
    assert TogetherBackend.calls == [{"a": 2, "b": 2}]
    assert made["c"] is program and list(made) == ["a", "b", "c"]
    assert [one.processed_bytes for one in delegates(made["b"])] == [b"b", b"b"]


@pytest.mark.parametrize("more", [1, -1])
def test_results_of_another_length_are_an_error(program: Any, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TogetherBackend, "answer", more)
    spec = engine.MethodProgramsPartitionerSpec({"a": program}, {"a": Tagger(relu_tagged, "TogetherBackend")})
    with pytest.raises(AssertionError, match="results for the 1 partitions of a"):
        engine.to_backend(spec)
    with pytest.raises(AssertionError, match="1 partitions but no"):
        ContractBackend.preprocess_multimethod({"a": [program]}, {})


def test_a_partitioner_for_a_method_that_is_not_there(program: Any) -> None:
    with pytest.raises(AssertionError, match="'b'"):
        engine.to_backend(engine.MethodProgramsPartitionerSpec({"a": program}, {"b": Tagger(relu_tagged)}))


def test_f3_methods_that_share_a_parameter(program: Any, model: nn.Module) -> None:
    methods = {"one": program, "two": program}
    result = engine.partition(methods, eager_rules())
    assert len(set(result.partition_tags)) == len(result.partitions)
    made = engine.to_backend(engine.MethodProgramsPartitionerSpec(methods, dict.fromkeys(
        methods, engine.RulesPartitioner(eager_rules()))))
    for one in made.values():
        compare(one, model, [(torch.randn(2, 4),)] * 2)


def test_the_bytes_run_and_the_original_never(program: Any, monkeypatch: pytest.MonkeyPatch, model: nn.Module) -> None:
    made = engine.to_backend(program, engine.partition(program, eager_rules("aten.relu.default", "aten.sin.default")))
    (one,) = delegates(made)
    x = torch.randn(2, 4)

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the original program was executed")

    original = one.original_module
    monkeypatch.setattr(original.graph_module, "forward", never)
    monkeypatch.setattr(original, "module", never)
    equal(made.module()(x), model(x).detach())

    good = one.processed_bytes
    for place in (0, 7, len(good) // 2, len(good) - 1):
        one.processed_bytes = good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1:]
        with pytest.raises(engine.DelegateError):
            made.module()(x)
    one.processed_bytes = good[: len(good) // 2]
    with pytest.raises(engine.DelegateError):
        made.module()(x)
    one.processed_bytes = good
    equal(made.module()(x), model(x).detach())


def test_without_its_backend_a_delegate_does_not_run(program: Any) -> None:
    made = engine.to_backend(program, Tagger(relu_tagged, "ContractBackend"))
    (one,) = delegates(made)
    one._backend_id = "GoneBackend"
    one.processed_bytes = one.processed_bytes
    with pytest.raises(engine.DelegateError, match="GoneBackend was not found"):
        made.module()(torch.ones(2, 4))


def test_a_backend_that_only_compiles_says_so(program: Any) -> None:
    made = engine.to_backend(engine.MethodProgramsPartitionerSpec(
        {"a": program}, {"a": Tagger(relu_tagged, "TogetherBackend")}))["a"]
    with pytest.raises(NotImplementedError, match="TogetherBackend compiles for another machine"):
        made.module()(torch.ones(2, 4))


def test_one_call_from_model_to_lowered_program(model: nn.Module) -> None:
    x = torch.ones(2, 4)
    made = engine.lower(model, eager_rules(), (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    compare(made, model, [(torch.randn(n, 4),) for n in (2, 5)])
    again = engine.lower(torch.export.export(model, (x,)), Tagger(relu_tagged))
    assert len(delegates(again)) == 1
    with pytest.raises(engine.ProgramError, match="example_inputs"):
        engine.lower(model, eager_rules())
    with pytest.raises(engine.StrictError):
        engine.lower(model, eager_rules("aten.relu.default"), (x,), strict=True)


def test_k6_compile_specs_reach_the_backend(program: Any) -> None:
    ContractBackend.seen.clear()
    rules = engine.parse_rules('backend "ContractBackend" language 1\noption level: int = 3\n'
                               "rule a { match y = aten.relu.default()  emit level = option.level }",
                               options={"level": 5})
    result = engine.partition(program, rules, compile_specs=[engine.CompileSpec("extra", b"1")])
    made = engine.to_backend(program, result)
    expected = [engine.CompileSpec("level", b"5"), engine.CompileSpec("extra", b"1")]
    assert ContractBackend.seen[0][1] == expected and delegates(made)[0].compile_specs == expected


def test_partitioners_and_rules_mix_in_one_call(program: Any, model: nn.Module) -> None:
    by_hand = Tagger(relu_tagged, "ContractBackend")
    for made in (engine.lower(model, [by_hand, "eager"], (torch.ones(2, 4),)),
                 engine.to_backend(program, [by_hand, "eager"])):
        assert sorted(one.backend_id for one in delegates(made)) == ["ContractBackend", "EagerBackend", "EagerBackend"]
    only = engine.lower(model, [by_hand, Tagger(lambda n: "s" if n.name == "sin" else None)], (torch.ones(2, 4),))
    assert [one.backend_id for one in delegates(only)] == ["ContractBackend", "EagerBackend"]
