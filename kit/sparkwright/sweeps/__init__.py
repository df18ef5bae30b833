"""Sweeps: hyperparameter search on Spark with Optuna."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._front import sweep as sweep
    from ._sweep import Sweep as Sweep

__getattr__, __dir__ = _lazy_names(__name__)
