"""Sweeps: hyperparameter search on Spark with Optuna."""

from ._sweep import Sweep as Sweep, sweep as sweep
