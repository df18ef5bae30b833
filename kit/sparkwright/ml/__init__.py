"""Keras models as stages of Spark ML's pipelines: `KerasEstimator` fits, `KerasModel` predicts."""

from .estimator import KerasEstimator as KerasEstimator
from .model import KerasModel as KerasModel
