"""Evaluations: how good predictions are. Pure, and mergeable over distributed data."""

from ._abstract import AbstractEvaluation as AbstractEvaluation
from ._binary import EvaluationBinary as EvaluationBinary
from ._binary_counts import BinaryCounts as BinaryCounts
from ._binary_rates import Average as Average, Metric as Metric
from ._calibration import EvaluationCalibration as EvaluationCalibration
from ._comparison import Comparison as Comparison, compare as compare
from ._custom import CustomEvaluation as CustomEvaluation
from ._evaluation import Evaluation as Evaluation
from ._histogram import Histogram as Histogram
from ._prediction_errors import PredictionError as PredictionError
from ._registry import (
    evaluation_from_dict as evaluation_from_dict,
    evaluation_from_json as evaluation_from_json,
)
from ._regression import RegressionEvaluation as RegressionEvaluation
from ._regression_metrics import RegressionMetric as RegressionMetric
from ._reliability import ReliabilityDiagram as ReliabilityDiagram
from ._roc import ROC as ROC
from ._roc_band import RocBand as RocBand, bootstrap_band as bootstrap_band
from ._roc_curves import (
    CurvePoint as CurvePoint,
    PrecisionRecallCurve as PrecisionRecallCurve,
    RocCurve as RocCurve,
)
from ._roc_digest import ROCDigest as ROCDigest
from ._roc_outputs import ROCBinary as ROCBinary, ROCMultiClass as ROCMultiClass
from ._roc_ranges import (
    RangePlan as RangePlan,
    RangeSummary as RangeSummary,
    ScoreHistogram as ScoreHistogram,
    ScoreRange as ScoreRange,
    cut_ranges as cut_ranges,
    plan_ranges as plan_ranges,
    refined_edges as refined_edges,
    score_histogram as score_histogram,
    summarize_range as summarize_range,
)
from ._worst_examples import WorstExample as WorstExample, WorstExamples as WorstExamples
