"""Training masters: frozen configuration that turns into a plan of rounds."""

from ._checkpointing import Checkpointing as Checkpointing
from ._mesh_config import MeshConfig as MeshConfig
from ._parameter_averaging import (
    ParameterAveragingTrainingMaster as ParameterAveragingTrainingMaster,
)
from ._plan import TrainingPlan as TrainingPlan
from ._training_master import TrainingHook as TrainingHook, TrainingMaster as TrainingMaster
