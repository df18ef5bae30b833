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
    from .advice import Advice as Advice, Alternative as Alternative, advise as advise
    from .checkpointing import Checkpointing as Checkpointing
    from .cost import (
        ExchangeCosts as ExchangeCosts,
        ScalingCosts as ScalingCosts,
        ScalingPoint as ScalingPoint,
    )
    from .forecast import Prospect as Prospect, prospect as prospect
    from .histograms import Histograms as Histograms
    from .mesh_config import MeshConfig as MeshConfig
    from .outer_optimizer import OuterOptimizer as OuterOptimizer
    from .parameter_averaging import (
        ParameterAveragingTrainingMaster as ParameterAveragingTrainingMaster,
    )
    from .plan import (
        Exchange as Exchange,
        TrainingPlan as TrainingPlan,
        updater_bytes as updater_bytes,
        vector_bytes as vector_bytes,
    )
    from .reading import (
        training_master_from_dict as training_master_from_dict,
        training_master_from_json as training_master_from_json,
        training_master_from_yaml as training_master_from_yaml,
    )
    from .scaling import Scaling as Scaling, predict_scaling as predict_scaling
    from .training_master import TrainingHook as TrainingHook, TrainingMaster as TrainingMaster

__getattr__, __dir__ = _lazy_names(__name__)
