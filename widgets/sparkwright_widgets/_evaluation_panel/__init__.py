"""The EvaluationPanel: evaluate a network on Spark, or show existing evaluations."""

from ._panel import EvaluationPanel as EvaluationPanel
from ._results import Results as Results
from ._threshold_explorer import ThresholdExplorer as ThresholdExplorer
