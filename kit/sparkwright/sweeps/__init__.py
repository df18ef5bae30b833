"""Sweeps: many trials of a network with other hyperparameters, chosen and kept by Optuna."""

from ._sweep import BestTrial as BestTrial, Sweep as Sweep, sweep as sweep
