"""Experiments: data, network, training master, Spark settings and seeds in one object."""

from ._experiment import (
    Experiment as Experiment,
    NormalizeKind as NormalizeKind,
    PreparedExperiment as PreparedExperiment,
    prepare as prepare,
)
from .stopping import (
    EarlyStoppingOptions as EarlyStoppingOptions,
    ReduceLROnPlateauOptions as ReduceLROnPlateauOptions,
)
