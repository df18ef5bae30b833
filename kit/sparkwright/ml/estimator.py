"""KerasEstimator: a Spark ML estimator that trains a Keras model on Spark."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import keyword_only
from pyspark.ml import Estimator
from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import HasValidationIndicatorCol
from pyspark.ml.util import MLReadable, MLWritable

from sparkwright.data.spark_columns import addressed, selected
from sparkwright.errors import ConfigurationError
from sparkwright.masters import ParameterAveragingTrainingMaster, TrainingMaster
from sparkwright.networks.building import is_built, model_of
from sparkwright.networks.definition import ModelDefinition
from sparkwright.options import check_count
from sparkwright.runs.fit_options import FitOptions
from sparkwright.spark import SparkNetwork

from ._invalid import without_invalid
from ._params import ColumnParams, checked, columns_of, noted, with_accessors
from ._persistence import StageReader, StageWriter
from .model import KerasModel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Options that are Params of the estimator, or that do not apply to a pipeline's data.
_NOT_IN_FIT_OPTIONS = {
    *("epochs", "callbacks", "features", "label", "sample_weight", "validation"),
}
_KNOWN = set(FitOptions.__annotations__)


def _noted_model(model: Any) -> dict[str, Any]:
    return {"model": getattr(model, "name", None) or getattr(model, "__qualname__", repr(model))}


@with_accessors
class KerasEstimator(
    Estimator,  # pyright: ignore[reportMissingTypeArgument]
    ColumnParams,
    HasValidationIndicatorCol,
    MLReadable["KerasEstimator"],
    MLWritable,
):
    """A Spark ML estimator that trains a Keras model on the executors.

    It works as a stage of `Pipeline` and with `CrossValidator`. `fit` trains a copy of the model,
    so all fits of a grid start from the same weights, even in parallel.

    Example:
        estimator = KerasEstimator(model=build, master=sw.ParameterAveragingTrainingMaster(),
                                   featuresCol="features", labelCol="label", epochs=5)
        fitted = Pipeline(stages=[assembler, estimator]).fit(train)
        fitted.transform(test).select("prediction", "probability")
    """

    _input_kwargs: dict[str, Any]

    model = Param(
        Params._dummy(),
        "model",
        "a compiled keras.Model, or a function without arguments that builds and compiles one",
        noted(_noted_model),
    )
    master = Param(
        Params._dummy(),
        "master",
        "how to train: a training master; default ParameterAveragingTrainingMaster()",
        noted(lambda master: {} if master is None else master.to_dict()),
    )
    epochs = Param(
        Params._dummy(), "epochs", "passes over the data", checked(check_count, "epochs")
    )
    callbacks = Param(
        Params._dummy(),
        "callbacks",
        "Keras' callbacks, see FitOptions",
        noted(lambda callbacks: {"callbacks": [type(each).__name__ for each in callbacks]}),
    )
    fitOptions = Param(
        Params._dummy(),
        "fitOptions",
        "further options of SparkNetwork.fit by name, such as {'validation_split': 0.1}; display "
        "defaults to False",
    )

    @keyword_only
    def __init__(
        self,
        *,
        model: Any = None,
        master: TrainingMaster | None = None,
        epochs: int | None = None,
        callbacks: Sequence[Any] | None = None,
        fitOptions: Mapping[str, Any] | None = None,
        featuresCol: str | None = None,
        featuresCols: Sequence[str] | None = None,
        labelCol: str | None = None,
        weightCol: str | None = None,
        validationIndicatorCol: str | None = None,
        predictionCol: str | None = None,
        probabilityCol: str | None = None,
        rawPredictionCol: str | None = None,
        thresholds: Sequence[float] | None = None,
        handleInvalid: str | None = None,
        task: str | None = None,
        batchSize: int | None = None,
    ) -> None:
        """Set Params; None keeps the default.

        Args:
            model: a compiled keras.Model, which is not changed, or a function without arguments
                that builds and compiles one.
            master: training master; default `ParameterAveragingTrainingMaster()`.
            epochs: passes over the data; default 1.
            callbacks: Keras callbacks, as in `SparkNetwork.fit`; all fits share the list. Default
                none.
            fitOptions: further options of `SparkNetwork.fit`; default none.
            featuresCol: column of vectors, arrays or numbers; default "features".
            featuresCols: columns to use in place of `featuresCol`; see `ColumnParams`.
            labelCol: column of labels; default "label".
            weightCol: column of sample weights; default none.
            validationIndicatorCol: boolean column that is true for validation rows; default none.
            predictionCol: see `KerasModel`.
            probabilityCol: see `KerasModel`.
            rawPredictionCol: see `KerasModel`.
            thresholds: see `KerasModel`.
            handleInvalid: rows with null or NaN in the columns: "error" (default), or "skip" and
                "keep", which leave them out of training; see `KerasModel`.
            task: "classification" or "regression"; default: inferred from the model's loss.
            batchSize: batch size for predictions of the fitted model; default 64.
        """
        super().__init__()
        self._setDefault(epochs=1)
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, **params: Any) -> "KerasEstimator":
        """Set Params by name; None leaves a Param unchanged."""
        return self._set(**params)

    def _fit(self, dataset: "DataFrame") -> KerasModel:
        options: dict[str, Any] = {"display": False, **self._value("fitOptions", {})}
        if wrong := sorted((set(options) & _NOT_IN_FIT_OPTIONS) | (set(options) - _KNOWN)):
            raise ConfigurationError(
                "`fitOptions` takes options of `fit` that are not Params themselves: "
                f"{', '.join(sorted(_KNOWN - _NOT_IN_FIT_OPTIONS))}. Received: {wrong}."
            )
        model = self._fresh_model()
        master = self._value("master", None) or ParameterAveragingTrainingMaster()
        if isinstance(master, Mapping):  # of a saved grid
            master = TrainingMaster.from_dict(master)  # pyright: ignore[reportUnknownArgumentType]
        features, weight = self.features(model), self._value("weightCol", None)
        if self.getOrDefault(self.handleInvalid) != "error":
            used = [*columns_of(features), self.getLabelCol(), *([weight] if weight else [])]
            dataset = without_invalid(dataset, used)
        train = dataset
        if indicator := self._value("validationIndicatorCol", None):
            there, (is_validation,) = addressed(dataset, [indicator])
            names = [name for name in dataset.columns if name != indicator]
            parts = (there.where(which) for which in (~is_validation, is_validation))
            train, options["validation"] = (
                selected(p.toDF(*dataset.columns), names) for p in parts
            )
        network = SparkNetwork(dataset.sparkSession, model, master)
        network.fit(
            train,
            features=features,
            label=self.getLabelCol(),
            sample_weight=weight,
            epochs=self.getOrDefault(self.epochs),
            callbacks=self._value("callbacks", None),
            **options,
        )
        return self._copyValues(KerasModel(network.model, network.history))

    def _value(self, name: str, default: Any) -> Any:
        """Return the value of the Param `name` if it is set, else `default`."""
        param = self.getParam(name)
        return self.getOrDefault(param) if self.isSet(param) else default

    def _fresh_model(self) -> Any:
        """Return a model to train: a copy of the given model, or a newly built one."""
        given = self._value("model", None)
        if isinstance(given, Mapping):
            raise ConfigurationError(
                "a saved grid of Params has no models. Received: "
                f"model={dict(given)}. Set the grid again: "  # pyright: ignore[reportUnknownArgumentType]
                "`validator.setEstimatorParamMaps(…)`."
            )
        model = model_of(given)
        return copied(model) if model is given else model

    # -- storage ----------------------------------------------------------------------------

    def write(self) -> StageWriter:
        """Return a writer; `save(path)` is short for `write().save(path)`.

        Raises:
            ConfigurationError: on `save`, if a Param cannot be saved: callbacks, a function as
                `model`, or `fitOptions` that are not JSON-serializable.
        """
        return StageWriter(self)

    @classmethod
    def read(cls) -> StageReader:
        """Return a reader; `load(path)` is short for `read().load(path)`."""
        return StageReader(cls)

    def saved_model(self) -> Any:
        """Return the keras.Model to save.

        Raises:
            ConfigurationError: if `model` is not set, or is a function.
        """
        given = self._value("model", None)
        model = model_of(given)
        if model is not given:
            raise ConfigurationError(
                "a saved estimator needs a keras.Model: functions are not saved. Received: "
                "model=a function. Set the model it builds: `estimator.setParams(model=build())`."
            )
        return model

    def saved_params(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the set Params as JSON by name, and the additional metadata."""
        params = {param.name: self.getOrDefault(param) for param in self._paramMap}
        del params["model"]
        master = params.pop("master", None)
        for name in ("callbacks", "fitOptions"):
            try:
                json.dumps(params.get(name))
            except TypeError:
                raise ConfigurationError(
                    f"a saved estimator needs Params that are JSON. Received: {name}="
                    f"{params[name]!r:.200}. Clear it: `estimator.clear(estimator.{name})`, and "
                    "set it again after loading."
                ) from None
        return params, {} if master is None else {"master": master.to_dict()}

    def restore(self, metadata: Mapping[str, Any]) -> None:
        """Set the Params stored as additional metadata."""
        if "master" in metadata:
            self.setParams(master=TrainingMaster.from_dict(metadata["master"]))


def copied(model: Any) -> Any:
    """Return a model with the same configuration, compile settings and weights."""
    import keras

    if is_built(model):
        copy = ModelDefinition.of(model).build()
        copy.set_weights(model.get_weights())
        return copy
    copy = keras.models.clone_model(model)
    copy.compile_from_config(model.get_compile_config())
    return copy
