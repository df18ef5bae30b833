"""Networks as plain values: layers, shapes, parameter counts, problems; JSON, YAML and code."""

from ._analysis import (
    LayerAnalysis as LayerAnalysis,
    NetworkAnalysis as NetworkAnalysis,
    analyse as analyse,
)
from ._catalogue import LAYER_KINDS as LAYER_KINDS, layer_kinds as layer_kinds
from ._describing import describe_model as describe_model
from ._editing import (
    add_layer as add_layer,
    duplicate_layer as duplicate_layer,
    move_layer as move_layer,
    remove_layer as remove_layer,
    rename_layer as rename_layer,
    replace_layer as replace_layer,
    switch_layer as switch_layer,
)
from ._estimate import (
    EstimatedFigure as EstimatedFigure,
    NetworkEstimate as NetworkEstimate,
    estimate as estimate,
)
from ._layer_kind import LayerKind as LayerKind
from ._losses import LOSSES as LOSSES, LossKind as LossKind
from ._metrics import METRICS as METRICS, MetricKind as MetricKind
from ._network_spec import (
    LayerSpec as LayerSpec,
    NetworkSpec as NetworkSpec,
    OptimizerSpec as OptimizerSpec,
    OutputSpec as OutputSpec,
    Task as Task,
)
from ._optimizers import OPTIMIZERS as OPTIMIZERS, OptimizerKind as OptimizerKind
from ._spec_presets import PRESETS as PRESETS, Preset as Preset
from ._training_defaults import (
    TrainingDefaults as TrainingDefaults,
    defaults_for as defaults_for,
)
from ._viewing import view_model as view_model
