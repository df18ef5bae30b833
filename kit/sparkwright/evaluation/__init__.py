"""Evaluations: how good predictions are. Pure, and mergeable over distributed data."""

from ._abstract import AbstractEvaluation as AbstractEvaluation
from ._binary_counts import BinaryCounts as BinaryCounts
from ._binary_rates import Average as Average, Metric as Metric
from ._calibration import EvaluationCalibration as EvaluationCalibration
from ._evaluation import Evaluation as Evaluation
from ._histogram import Histogram as Histogram
from ._prediction_errors import PredictionError as PredictionError
from ._regression import (
    RegressionEvaluation as RegressionEvaluation,
    RegressionMetric as RegressionMetric,
)
from ._reliability import ReliabilityDiagram as ReliabilityDiagram
