"""The public names of the engine.

`partition(program, rules)` is the main one; the rest loads rules, runs their examples, and adapts to the systems that
partitioned programs go to.
"""

from typing import TYPE_CHECKING, Any

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
from apportion.engine.lowering.exports import exported as _exported
from apportion.engine.lowering.exports import load
from apportion.engine.partition import partition
from apportion.engine.partitioner import Partitioner, RulesPartitioner
from apportion.engine.report import BackendCoverage, NodeReason, Report
from apportion.engine.result import CompileSpec, DelegationSpec, Partition, PartitionResult
from apportion.engine.version import __version__

if TYPE_CHECKING:
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
    from apportion.engine.lowering.module import LoweredBackendModule
    from apportion.engine.lowering.saving import save
    from apportion.engine.lowering.sizes import size_report
    from apportion.engine.lowering.whole import lower
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


def __getattr__(name: str) -> Any:
    """What lowering brings is imported when it is used."""
    return _exported(name)
