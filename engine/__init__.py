"""The public names of the engine.

`partition(program, rules)` is the main one; the rest loads rules, runs their examples, and adapts to the systems that
partitioned programs go to.
"""

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
from apportion.engine.load import load_rules, parse_rules, shipped_rules
from apportion.engine.partition import partition
from apportion.engine.partitioner import Partitioner, RulesPartitioner
from apportion.engine.report import BackendCoverage, NodeReason, Report
from apportion.engine.result import CompileSpec, DelegationSpec, Partition, PartitionResult
from apportion.engine.version import __version__

__all__ = [
    "ApportionError",
    "BackendCoverage",
    "CompileSpec",
    "DelegationSpec",
    "ExampleResult",
    "NodeReason",
    "OptionError",
    "Partition",
    "PartitionResult",
    "Partitioner",
    "PredicateError",
    "ProgramError",
    "Report",
    "RuleSet",
    "RulesError",
    "RulesNotFoundError",
    "RulesPartitioner",
    "StrictError",
    "__version__",
    "load_rules",
    "parse_rules",
    "partition",
    "predicate",
    "run_examples",
    "shipped_rules",
]
