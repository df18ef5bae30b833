"""Training masters: frozen configuration that turns into a plan of rounds."""

from ._mesh_config import MeshConfig as MeshConfig
from ._parameter_averaging import (
    ParameterAveragingTrainingMaster as ParameterAveragingTrainingMaster,
    TrainingHook as TrainingHook,
)
from ._plan import TrainingPlan as TrainingPlan
