"""Experiments: data, network, training master, Spark settings and seeds in one object."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._experiment import (
        Experiment as Experiment,
        NormalizeKind as NormalizeKind,
    )
    from ._prepared import PreparedExperiment as PreparedExperiment, prepare as prepare
    from .stopping import (
        EarlyStoppingOptions as EarlyStoppingOptions,
        ReduceLROnPlateauOptions as ReduceLROnPlateauOptions,
    )

__getattr__, __dir__ = _lazy_names(__name__)
