"""TrainingMasterPicker: configure a training master and estimate its speed-up."""

from ._picker import TrainingMasterPicker as TrainingMasterPicker
