"""Evaluations: how good predictions are. Pure, and mergeable over distributed data."""

from ._abstract import AbstractEvaluation as AbstractEvaluation
from ._binary_counts import BinaryCounts as BinaryCounts
from ._evaluation import Average as Average, Evaluation as Evaluation, Metric as Metric
