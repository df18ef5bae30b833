"""Evaluations: how good predictions are. Pure, and mergeable over distributed data."""

from ._binary_counts import BinaryCounts as BinaryCounts
from ._evaluation import Average as Average, Evaluation as Evaluation, Metric as Metric
from ._protocol import AbstractEvaluation as AbstractEvaluation
