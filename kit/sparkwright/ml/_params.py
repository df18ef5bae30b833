"""Params shared by estimator and model, with Spark ML's naming conventions."""

from collections.abc import Callable
from typing import Any, TypeVar

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasThresholds,
    HasWeightCol,
)

from sparkwright.errors import ConfigurationError
from sparkwright.networks.signature import input_shapes, output_names
from sparkwright.options import check_choice, check_count
from sparkwright.workers.data_checks import is_known_loss, loss_name, losses_of

T = TypeVar("T")
TASKS = ("classification", "regression")


def checked(check: Callable[..., None], name: str, *rule: Any) -> Any:
    """Return a converter for a Param that validates its value with `check`."""

    def convert(value: Any) -> Any:
        check(name, value, *rule)
        return value

    return convert


class Noted(dict[str, Any]):
    """The value of a Param that is no JSON, with what a saved grid of Params keeps of it."""

    def __init__(self, value: Any, note: dict[str, Any]) -> None:
        super().__init__(note)
        self.value = value


def noted(note: Callable[[Any], dict[str, Any]]) -> Any:
    """Return a converter for a Param whose values are no JSON."""
    return lambda value: value if isinstance(value, dict) else Noted(value, note(value))


def with_accessors(kind: type[T]) -> type[T]:
    """Add the methods `getName` and `setName` of each Param that lacks them, as in Spark ML."""
    names = [name for name in dir(kind) if isinstance(getattr(kind, name), Param)]
    for name in names:
        title = name[0].upper() + name[1:]
        if not hasattr(kind, f"get{title}"):
            get = _method(lambda self, name=name: self.getOrDefault(name), f"get{title}")
            get.__doc__ = f"Return the value of `{name}`, or its default."
            setattr(kind, f"get{title}", get)
        if not hasattr(kind, f"set{title}"):
            put = _method(lambda self, value, name=name: self._set(**{name: value}), f"set{title}")
            put.__doc__ = f"Set `{name}`, and return the stage."
            setattr(kind, f"set{title}", put)
    return kind


def _method(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


def columns_of(features: Any) -> list[str]:
    """Return the columns in the form that `ColumnParams.features` returns."""
    if isinstance(features, dict):
        return [name for names in features.values() for name in names]  # pyright: ignore
    return [features] if isinstance(features, str) else list(features)


def has_logits(model: Any) -> bool:
    """Whether the model's loss applies softmax or sigmoid, so that its outputs are logits."""
    return bool(getattr(_loss(model), "get_config", dict)().get("from_logits", False))


def _loss(model: Any) -> Any:
    """Return the model's only loss; None if it has several, or is not compiled."""
    losses = losses_of(getattr(model, "loss", None), output_names(model) if model.built else [""])
    return losses[0] if len(losses) == 1 else None


class ColumnParams(
    HasFeaturesCol,
    HasLabelCol,
    HasWeightCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasThresholds,
):
    """Params for input and output columns, and for prediction."""

    featuresCols = Param(
        Params._dummy(),
        "featuresCols",
        "feature columns, instead of featuresCol: one per input of the model, or the numbers of "
        "its only input",
        TypeConverters.toListString,
    )
    task = Param(
        Params._dummy(),
        "task",
        '"classification" or "regression"; default: classification if the model\'s loss is a '
        "cross-entropy",
        checked(check_choice, "task", TASKS),
    )
    handleInvalid = Param(
        Params._dummy(),
        "handleInvalid",
        'rows with null or NaN: "error" raises, "skip" leaves them out, "keep" predicts null for '
        "them; both leave them out of training",
        checked(check_choice, "handleInvalid", ("error", "skip", "keep")),
    )
    batchSize = Param(
        Params._dummy(),
        "batchSize",
        "batch size of predictions",
        checked(check_count, "batchSize"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(batchSize=64, handleInvalid="error")

    def getOrDefault(self, param: Any) -> Any:
        """Return the value of a Param, or its default."""
        value: Any = super().getOrDefault(param)
        return value.value if isinstance(value, Noted) else value

    def task_of(self, model: Any) -> str:
        """Return `task` if it is set, else the task that the loss of `model` implies."""
        if self.isSet(self.task):
            return self.getOrDefault(self.task)
        loss = _loss(model)
        if loss is not None and not is_known_loss(loss):
            raise ConfigurationError(
                "`task` must be set if the loss is not one of Keras'. Received: "
                f'loss={loss_name(loss)!r}. Set `task` to "classification" or "regression".'
            )
        return "classification" if "crossentropy" in loss_name(loss) else "regression"

    def features(self, model: Any) -> Any:
        """Return the feature columns in the form that `SparkNetwork.fit` takes."""
        if not self.isSet(self.featuresCols):
            return self.getFeaturesCol()
        if self.isSet(self.featuresCol):
            raise ConfigurationError(
                "`featuresCol` and `featuresCols` exclude each other. Received: both. Clear one: "
                "`stage.clear(stage.featuresCol)`."
            )
        names = self.getOrDefault(self.featuresCols)
        inputs = list(input_shapes(model)) if model.built else []
        if len(inputs) > 1:
            if len(names) != len(inputs):
                raise ConfigurationError(
                    f"`featuresCols` must name a column for each of the model's inputs {inputs}. "
                    f"Received: featuresCols={names}."
                )
            return {name: [column] for name, column in zip(inputs, names, strict=True)}
        return names
