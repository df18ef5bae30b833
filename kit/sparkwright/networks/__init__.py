"""Network specifications, presets and analysis; Keras models as definitions and flat vectors."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from .analysis import (
        LayerAnalysis as LayerAnalysis,
        NetworkAnalysis as NetworkAnalysis,
        analysis_now as analysis_now,
    )
    from .definition import ModelDefinition as ModelDefinition
    from .describing import describe_model as describe_model, view_model as view_model
    from .editing import (
        add_layer as add_layer,
        duplicate_layer as duplicate_layer,
        move_layer as move_layer,
        remove_layer as remove_layer,
        replace_layer as replace_layer,
        switch_layer as switch_layer,
    )
    from .keras_catalog import (
        LayerKind as LayerKind,
        OptimizerKind as OptimizerKind,
        layer_kind as layer_kind,
        layer_kinds as layer_kinds,
        optimizer_kind as optimizer_kind,
        optimizer_kinds as optimizer_kinds,
    )
    from .presets import PRESETS as PRESETS, Preset as Preset, lenet as lenet
    from .schedules import (
        CosineSchedule as CosineSchedule,
        ExponentialSchedule as ExponentialSchedule,
        PiecewiseSchedule as PiecewiseSchedule,
        WarmUpSchedule as WarmUpSchedule,
    )
    from .spec import (
        LayerSpec as LayerSpec,
        NetworkSpec as NetworkSpec,
        OptimizerSpec as OptimizerSpec,
        OutputSpec as OutputSpec,
    )
    from .state import (
        ModelState as ModelState,
        pack_arrays as pack_arrays,
        unpack_arrays as unpack_arrays,
    )
    from .training import (
        LOSSES as LOSSES,
        METRICS as METRICS,
        LossKind as LossKind,
        MetricKind as MetricKind,
        Task as Task,
        TrainingDefaults as TrainingDefaults,
        defaults_for as defaults_for,
    )

__getattr__, __dir__ = _lazy_names(__name__)
