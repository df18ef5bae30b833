"""A Keras model as a stage of Spark ML's pipelines: `KerasEstimator` fits, `KerasModel` predicts."""

from .estimator import KerasEstimator as KerasEstimator
from .model import KerasModel as KerasModel
