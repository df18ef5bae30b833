"""Sweeps: hyperparameter search on Spark with Optuna."""

from ._front import sweep as sweep
from ._sweep import Sweep as Sweep
