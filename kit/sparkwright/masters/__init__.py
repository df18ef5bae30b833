"""Training masters: frozen configurations that determine the plan of a run."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from sparkwright.mesh.time_sources import (
        NtpClock as NtpClock,
        SystemClock as SystemClock,
        TimeSource as TimeSource,
    )

    from ._shared_training import SharedTrainingMaster as SharedTrainingMaster
    from .checkpointing import Checkpointing as Checkpointing
    from .cost import ScalingCosts as ScalingCosts
    from .histograms import Histograms as Histograms
    from .mesh_config import MeshConfig as MeshConfig
    from .outer_optimizer import OuterOptimizer as OuterOptimizer
    from .parameter_averaging import (
        ParameterAveragingTrainingMaster as ParameterAveragingTrainingMaster,
    )
    from .plan import (
        Exchange as Exchange,
        TrainingPlan as TrainingPlan,
    )
    from .reading import TrainingMaster as TrainingMaster
    from .training_master import TrainingHook as TrainingHook

__getattr__, __dir__ = _lazy_names(__name__)
