"""The public names of the engine.

`partition(program, rules)` is the main one; the rest loads rules, runs their examples, and adapts to the systems that
partitioned programs go to.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from apportion.engine.lowering.exports import EXPORTS as _LOWERING
from apportion.engine.version import __version__

if TYPE_CHECKING:
    from apportion.engine.compile.rulesets import RuleSet
    from apportion.engine.errors import (
        ApportionError,
        OptionError,
        PredicateError,
        ProgramError,
        RulesError,
        RulesNotFoundError,
        StrictError,
    )
    from apportion.engine.examples import ExampleResult, run_examples
    from apportion.engine.externs import predicate
    from apportion.engine.lint import LintResult, lint
    from apportion.engine.load import load_rules, parse_rules, shipped_rules
    from apportion.engine.lowering.backend import (
        MethodProgramsPartitionerSpec,
        disable_validation,
        to_backend,
        validation_disabled,
    )
    from apportion.engine.lowering.compiling import compile_backend
    from apportion.engine.lowering.details import BackendDetails, PreprocessResult
    from apportion.engine.lowering.errors import (
        BackendNotFoundError,
        BackendUnavailableError,
        ChangedGraphError,
        DelegateError,
        FormatError,
        MethodError,
        PartitionerError,
        PreprocessError,
        TagError,
    )
    from apportion.engine.lowering.exports import load
    from apportion.engine.lowering.module import LoweredBackendModule
    from apportion.engine.lowering.saving import save
    from apportion.engine.lowering.sizes import size_report
    from apportion.engine.lowering.whole import lower
    from apportion.engine.partition import partition
    from apportion.engine.partitioner import Partitioner, RulesPartitioner
    from apportion.engine.registry import (
        CompiledFn,
        CompilerFn,
        InvalidBackend,
        list_backends,
        lookup_backend,
        register_backend,
        register_debug_backend,
        register_experimental_backend,
    )
    from apportion.engine.report import BackendCoverage, NodeReason, Report
    from apportion.engine.result import CompileSpec, DelegationSpec, Partition, PartitionResult

__all__ = [
    "ApportionError",
    "BackendCoverage",
    "BackendDetails",
    "BackendNotFoundError",
    "BackendUnavailableError",
    "ChangedGraphError",
    "CompileSpec",
    "CompiledFn",
    "CompilerFn",
    "DelegateError",
    "DelegationSpec",
    "ExampleResult",
    "FormatError",
    "InvalidBackend",
    "LoweredBackendModule",
    "MethodError",
    "MethodProgramsPartitionerSpec",
    "NodeReason",
    "LintResult",
    "OptionError",
    "Partition",
    "PartitionResult",
    "Partitioner",
    "PartitionerError",
    "PredicateError",
    "PreprocessError",
    "PreprocessResult",
    "ProgramError",
    "Report",
    "RuleSet",
    "RulesError",
    "RulesNotFoundError",
    "RulesPartitioner",
    "StrictError",
    "TagError",
    "__version__",
    "compile_backend",
    "disable_validation",
    "list_backends",
    "load",
    "lint",
    "load_rules",
    "lookup_backend",
    "lower",
    "parse_rules",
    "partition",
    "predicate",
    "register_backend",
    "register_debug_backend",
    "register_experimental_backend",
    "run_examples",
    "save",
    "shipped_rules",
    "size_report",
    "to_backend",
    "validation_disabled",
]


_NAMES = {
    "compile.rulesets": ("RuleSet",),
    "errors": (
        "ApportionError",
        "OptionError",
        "PredicateError",
        "ProgramError",
        "RulesError",
        "RulesNotFoundError",
        "StrictError",
    ),
    "examples": ("ExampleResult", "run_examples"),
    "externs": ("predicate",),
    "lint": ("LintResult", "lint"),
    "load": ("load_rules", "parse_rules", "shipped_rules"),
    "lowering.exports": ("load",),
    "partition": ("partition",),
    "partitioner": ("Partitioner", "RulesPartitioner"),
    "report": ("BackendCoverage", "NodeReason", "Report"),
    "result": ("CompileSpec", "DelegationSpec", "Partition", "PartitionResult"),
}
"""The public names by the module that they come from."""

_EXPORTS = {**_LOWERING, **{name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}}


class _Package(ModuleType):
    """Public names are imported when they are used, so that importing the engine costs next to nothing."""

    def __getattr__(self, name: str) -> Any:
        module = _EXPORTS.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(module), name)
        super().__setattr__(name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Python's import puts a submodule here under its name, which for `partition` is that of the function, too.
        if not (name in _EXPORTS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
