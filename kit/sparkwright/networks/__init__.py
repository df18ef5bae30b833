"""Networks: as plain values, as presets, and how a Keras model is rebuilt and flattened."""

from ._definition import ModelDefinition as ModelDefinition
from ._presets import lenet as lenet
from ._spec import (
    LAYER_KINDS as LAYER_KINDS,
    LOSSES as LOSSES,
    METRICS as METRICS,
    OPTIMIZERS as OPTIMIZERS,
    PRESETS as PRESETS,
    EstimatedFigure as EstimatedFigure,
    LayerAnalysis as LayerAnalysis,
    LayerKind as LayerKind,
    LayerSpec as LayerSpec,
    LossKind as LossKind,
    MetricKind as MetricKind,
    NetworkAnalysis as NetworkAnalysis,
    NetworkEstimate as NetworkEstimate,
    NetworkSpec as NetworkSpec,
    OptimizerKind as OptimizerKind,
    OptimizerSpec as OptimizerSpec,
    OutputSpec as OutputSpec,
    Preset as Preset,
    Task as Task,
    TrainingDefaults as TrainingDefaults,
    add_layer as add_layer,
    analyse as analyse,
    defaults_for as defaults_for,
    describe_model as describe_model,
    duplicate_layer as duplicate_layer,
    estimate as estimate,
    layer_kinds as layer_kinds,
    move_layer as move_layer,
    remove_layer as remove_layer,
    rename_layer as rename_layer,
    replace_layer as replace_layer,
    switch_layer as switch_layer,
    view_model as view_model,
)
from ._state import (
    ModelState as ModelState,
    pack_arrays as pack_arrays,
    unpack_arrays as unpack_arrays,
)
