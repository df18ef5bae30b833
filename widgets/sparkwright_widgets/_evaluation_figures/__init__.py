"""Evaluations as blocks: a figure, a sentence below it, and the same as a table."""

from ._calibration import calibration_blocks as calibration_blocks
from ._classification import (
    binary_blocks as binary_blocks,
    classification_blocks as classification_blocks,
)
from ._comparison import comparison_blocks as comparison_blocks
from ._regression import regression_blocks as regression_blocks
from ._roc import roc_blocks as roc_blocks
from ._worst import worst_blocks as worst_blocks
