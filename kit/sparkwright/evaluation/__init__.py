"""Evaluation metrics: pure values that can be merged over distributed data."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from .abstract import AbstractEvaluation as AbstractEvaluation
    from .binary import EvaluationBinary as EvaluationBinary
    from .calibration import EvaluationCalibration as EvaluationCalibration
    from .calibration_counts import Histogram as Histogram, ReliabilityDiagram as ReliabilityDiagram
    from .classification import Evaluation as Evaluation
    from .comparison import compare as compare
    from .custom import CustomEvaluation as CustomEvaluation
    from .prediction_errors import PredictionError as PredictionError
    from .rates import Average as Average, BinaryCounts as BinaryCounts, Metric as Metric
    from .regression import (
        RegressionEvaluation as RegressionEvaluation,
        RegressionMetric as RegressionMetric,
    )
    from .roc import ROC as ROC
    from .roc_columns import (
        ROCBinary as ROCBinary,
        RocColumns as RocColumns,
        ROCMultiClass as ROCMultiClass,
    )
    from .roc_counts import ThresholdCounts as ThresholdCounts
    from .roc_digest import ROCDigest as ROCDigest
    from .roc_readings import (
        CurvePoint as CurvePoint,
        PrecisionRecallCurve as PrecisionRecallCurve,
        RocCurve as RocCurve,
        RocReadings as RocReadings,
    )
    from .worst_examples import WorstExample as WorstExample, WorstExamples as WorstExamples

__getattr__, __dir__ = _lazy_names(__name__)
