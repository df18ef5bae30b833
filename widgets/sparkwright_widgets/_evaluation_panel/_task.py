"""Infer the task of a network's output and choose evaluations for it. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sparkwright.evaluation import (
    ROC,
    AbstractEvaluation,
    Evaluation,
    EvaluationBinary,
    EvaluationCalibration,
    RegressionEvaluation,
    ROCBinary,
    ROCMultiClass,
)
from sparkwright.networks.signature import output_types

Task = Literal["classes", "two classes", "answers", "numbers"]
Kind = Literal["roc", "calibration", "worst"]

TASKS: dict[Task, str] = {
    "classes": "one of several classes",
    "two classes": "one of two classes",
    "answers": "several binary outputs",
    "numbers": "numbers (regression)",
}
# Additional evaluations available for each task.
KINDS: dict[Task, tuple[Kind, ...]] = {
    "classes": ("roc", "calibration", "worst"),
    "two classes": ("roc", "calibration", "worst"),
    "answers": ("roc", "worst"),
    "numbers": ("worst",),
}
KEPT_ERRORS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """Attributes of one output of a network; empty or None if unknown."""

    name: str
    width: int | None  # size of its last axis
    activation: str = ""  # of its layer, such as "softmax"
    loss: str = ""  # such as "mse"

    @property
    def task(self) -> Task:
        """The most likely task, inferred from the loss, then from activation and width.

        Example:
            >>> Output(name="y", width=10, loss="sparse_categorical_crossentropy").task
            'classes'
            >>> Output(name="y", width=1, activation="sigmoid").task
            'two classes'
            >>> Output(name="y", width=4, loss="binary_crossentropy").task
            'answers'
            >>> Output(name="y", width=1, loss="mse").task
            'numbers'
        """
        loss = self.loss.lower().replace("_", "")
        if any(word in loss for word in ("categorical", "kldivergence", "kullback")):
            return "two classes" if self.width in (1, 2) else "classes"
        binary = any(word in loss for word in ("binary", "hinge"))
        if binary or (not loss and self.activation == "sigmoid"):
            return "two classes" if self.width == 1 else "answers"
        if self.activation == "softmax":  # possible with a mean squared error, too
            return "two classes" if self.width == 2 else "classes"
        return "numbers"


def outputs_of(model: Any) -> list[Output]:
    """The outputs of a built Keras model, in order."""
    types = output_types(model)
    names = list(types)
    losses = _losses(getattr(model, "loss", None), names)
    layers: Sequence[Any] = getattr(model, "layers", ())
    known = {layer.name: layer for layer in layers}
    last = layers[-1] if len(names) == 1 and layers else None
    found: list[Output] = []
    for (name, (_, shape)), loss in zip(types.items(), losses, strict=False):
        width = shape[-1] if shape else 1
        layer = known.get(name, last)
        width = None if width is None else int(width)
        found.append(Output(name=name, width=width, activation=_activation(layer), loss=loss))
    return found


def prototypes(
    task: Task, wanted: Collection[str], class_names: Sequence[str] | None = None
) -> list[AbstractEvaluation]:
    """Empty evaluations for a task: the main one, and the wanted ones of `KINDS`."""
    names = None if class_names is None else tuple(class_names)
    if task == "numbers":
        return [RegressionEvaluation(names=names)]
    if task == "answers":
        roc = [ROCBinary(names=names)] if "roc" in wanted else []
        return [EvaluationBinary(names=names), *roc]
    found: list[AbstractEvaluation] = [Evaluation(names, keep_errors=KEPT_ERRORS)]
    if "roc" in wanted:
        found.append(ROC() if task == "two classes" else ROCMultiClass(class_names=names))
    if "calibration" in wanted:
        found.append(EvaluationCalibration(class_names=names))
    return found


def _losses(given: Any, names: Sequence[str]) -> list[str]:
    """The loss name of each output, from names, objects, or lists or dicts of these."""
    if isinstance(given, dict):
        losses: dict[str, Any] = given  # pyright: ignore[reportUnknownVariableType]
        return [_named(losses.get(name)) for name in names]
    if isinstance(given, list | tuple):
        several: list[Any] = [*given]
        return [_named(loss) for loss in several] + [""] * max(0, len(names) - len(several))
    return [_named(given)] * len(names)


def _named(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return str(getattr(value, "name", None) or getattr(value, "__name__", type(value).__name__))


def _activation(layer: Any) -> str:
    if layer is None:
        return ""
    if type(layer).__name__ == "Softmax":
        return "softmax"
    activation = getattr(layer, "activation", None)
    return "" if activation is None else _named(activation).lower()
