"""Networks: presets, and how a Keras model is described, rebuilt and flattened."""

from ._definition import ModelDefinition as ModelDefinition
from ._presets import lenet as lenet
from ._state import (
    ModelState as ModelState,
    pack_arrays as pack_arrays,
    unpack_arrays as unpack_arrays,
)
