"""Why nodes were left, what would change it, and pages that show it."""

from apportion.engine.explain.blockers import Blocker, Blockers, find_blockers
from apportion.engine.explain.changes import Changes, assumed, relaxed
from apportion.engine.explain.coverage import Measured, coverage, measure_program
from apportion.engine.explain.explaining import Explainer, explain
from apportion.engine.explain.explanation import Apart, Explanation, NodeExplanation, Obstacle, RuleAttempt
from apportion.engine.explain.exports import graphviz, model_explorer
from apportion.engine.explain.page import page
from apportion.engine.explain.sheets import Sheet, sheet, sheet_html, sheet_markdown
from apportion.engine.explain.study import Difference, Outcome, Study

__all__ = [
    "Apart",
    "Blocker",
    "Blockers",
    "Changes",
    "Difference",
    "Explainer",
    "Explanation",
    "Measured",
    "NodeExplanation",
    "Obstacle",
    "Outcome",
    "RuleAttempt",
    "Sheet",
    "Study",
    "assumed",
    "coverage",
    "explain",
    "find_blockers",
    "graphviz",
    "measure_program",
    "model_explorer",
    "page",
    "relaxed",
    "sheet",
    "sheet_html",
    "sheet_markdown",
]
