"""TrainingMasterPicker: how a network is trained by several workers, and whether that pays."""

from ._picker import TrainingMasterPicker as TrainingMasterPicker
