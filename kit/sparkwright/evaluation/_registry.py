"""Reading any evaluation: its name in the JSON says which class it is of."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError

from ._abstract import AbstractEvaluation

# Name in the JSON -> module and class; a module is loaded when one of its kind is read.
_KINDS = {
    "custom_evaluation": ("_custom", "CustomEvaluation"),
    "evaluation": ("_evaluation", "Evaluation"),
    "evaluation_binary": ("_binary", "EvaluationBinary"),
    "evaluation_calibration": ("_calibration", "EvaluationCalibration"),
    "regression_evaluation": ("_regression", "RegressionEvaluation"),
    "roc": ("_roc", "ROC"),
    "roc_binary": ("_roc_outputs", "ROCBinary"),
    "roc_digest": ("_roc_digest", "ROCDigest"),
    "roc_multi_class": ("_roc_outputs", "ROCMultiClass"),
}


def evaluation_from_dict(values: Mapping[str, Any]) -> AbstractEvaluation:
    """The evaluation that `to_dict` gave, of whatever kind.

    Raises:
        DataError: if its `"name"` is not a known one, or the rest does not fit.

    Example:
        >>> evaluation_from_dict({"name": "evaluation", "confusion": [[3, 1], [0, 2]]})
        Evaluation(6 examples, 2 classes, accuracy=0.8333)
    """
    name = values.get("name") if isinstance(values, Mapping) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise DataError(
            f"an evaluation must be a dict with a `name` of {', '.join(map(repr, _KINDS))}. "
            f"Received: name={name!r:.80}."
        )
    module, class_name = kind
    found: type[AbstractEvaluation] = getattr(import_module(f".{module}", __package__), class_name)
    return found.from_dict(values)


def evaluation_from_json(text: str) -> AbstractEvaluation:
    """The evaluation that `to_json` gave, of whatever kind.

    Raises:
        DataError: if `text` is not JSON of an evaluation.
    """
    try:
        values: Any = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"an evaluation must be JSON. Received: {text[:40]!r}: {error}.") from None
    return evaluation_from_dict(values)
