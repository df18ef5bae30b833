"""Keras models as Spark ML pipeline stages: `KerasEstimator` fits, `KerasModel` predicts."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from .estimator import KerasEstimator as KerasEstimator
    from .model import KerasModel as KerasModel

__getattr__, __dir__ = _lazy_names(__name__)
