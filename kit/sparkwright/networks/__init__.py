"""Networks: as plain values, as presets, and how a Keras model is rebuilt and flattened."""

from ._definition import ModelDefinition as ModelDefinition
from ._presets import lenet as lenet
from ._spec import (
    LAYER_KINDS as LAYER_KINDS,
    LOSSES as LOSSES,
    METRICS as METRICS,
    OPTIMIZERS as OPTIMIZERS,
    PRESETS as PRESETS,
    LayerAnalysis as LayerAnalysis,
    LayerKind as LayerKind,
    LayerSpec as LayerSpec,
    LossKind as LossKind,
    MetricKind as MetricKind,
    NetworkAnalysis as NetworkAnalysis,
    NetworkSpec as NetworkSpec,
    OptimizerKind as OptimizerKind,
    OptimizerSpec as OptimizerSpec,
    OutputSpec as OutputSpec,
    Preset as Preset,
    TrainingDefaults as TrainingDefaults,
    analyse as analyse,
    defaults_for as defaults_for,
    layer_kinds as layer_kinds,
)
from ._state import (
    ModelState as ModelState,
    pack_arrays as pack_arrays,
    unpack_arrays as unpack_arrays,
)
