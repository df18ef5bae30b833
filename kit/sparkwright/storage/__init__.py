"""Read, write and remove files at a URL, and save and load models."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._evaluations import (
        load_evaluation as load_evaluation,
        save_evaluation as save_evaluation,
    )
    from .model_metadata import ModelInfo as ModelInfo
    from .model_reading import (
        ModelList as ModelList,
        delete_model as delete_model,
        list_models as list_models,
        model_info as model_info,
        verify_model as verify_model,
    )
    from .models import load_model as load_model, save_model as save_model

__getattr__, __dir__ = _lazy_names(__name__)
