"""A whole experiment as one value: data, network, training master, Spark, seeds."""

from ._experiment import (
    Experiment as Experiment,
    NormalizeKind as NormalizeKind,
    PreparedExperiment as PreparedExperiment,
    prepare as prepare,
)
