"""Keras models as Spark ML pipeline stages: `KerasEstimator` fits, `KerasModel` predicts."""

from .estimator import KerasEstimator as KerasEstimator
from .model import KerasModel as KerasModel
