"""Sweeps: many trials of a network with other hyperparameters, chosen and kept by Optuna."""

from ._front import sweep as sweep
from ._sweep import Sweep as Sweep
