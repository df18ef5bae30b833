"""KerasModel: a Spark ML transformer that applies a trained Keras model."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.util import MLReadable, MLWritable
from pyspark.sql import functions

from sparkwright.errors import ConfigurationError
from sparkwright.networks.signature import input_shapes, output_types
from sparkwright.spark import SparkNetwork

from ._invalid import VALID, with_filled, without_invalid
from ._params import ColumnParams, columns_of, has_logits, with_accessors
from ._persistence import StageReader, StageWriter

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OUTPUT = "__sparkwright_output"


@with_accessors
class KerasModel(Model, ColumnParams, MLReadable["KerasModel"], MLWritable):
    """A Spark ML transformer that adds the predictions of a Keras model to a DataFrame.

    A classifier adds these columns:

    - `probabilityCol` (vector, default "probability"): the probability of each class.
    - `rawPredictionCol` (vector, default "rawPrediction"): the logits if the model's loss has
      `from_logits=True`, else the probabilities.
    - `predictionCol` (double, default "prediction"): the most probable class. With a single sigmoid
      unit, 1.0 if its probability exceeds 0.5, else 0.0. With `thresholds`, one per class, the
      class with the largest probability / threshold.

    A regression model adds only `predictionCol`: a double, or an array if an example has several
    values. For several outputs, it is a struct of these by name. A column with an empty name is
    omitted. With `handleInvalid`, rows with null or NaN raise an error ("error", the default), are
    left out ("skip") or have null in the new columns ("keep").

    Attributes:
        model: the keras.Model.
        history: Keras' `History` of the training run; None after loading.
    """

    def __init__(self, model: Any = None, history: Any = None) -> None:
        """Create a transformer for a compiled keras.Model."""
        super().__init__()
        self.model, self.history = model, history

    def setParams(self, **params: Any) -> "KerasModel":
        """Set Params by name."""
        return self._set(**params)

    @property
    def numFeatures(self) -> int:
        """Numbers of an example, over all inputs; -1 if the network takes any length."""
        shapes: list[Any] = [*input_shapes(self.model).values()]
        return -1 if any(None in shape for shape in shapes) else sum(map(math.prod, shapes))

    @property
    def numClasses(self) -> int:
        """Classes of a classifier: 2 for a single unit."""
        shape = _shape_of(self.model)
        return 2 if shape in _SINGLE else shape[0]

    def network(self, dataset: "DataFrame") -> SparkNetwork:
        """Return a `SparkNetwork` of the model on the DataFrame's session."""
        return SparkNetwork(dataset.sparkSession, self.model)

    def write(self) -> StageWriter:
        """Return a writer; `save(path)` is short for `write().save(path)`."""
        return StageWriter(self)

    @classmethod
    def read(cls) -> StageReader:
        """Return a reader; `load(path)` is short for `read().load(path)`."""
        return StageReader(cls)

    def saved_model(self) -> Any:
        """Return the keras.Model."""
        return self.model

    def saved_params(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the set Params as JSON by name, and no additional metadata."""
        return {param.name: value for param, value in self._paramMap.items()}, {}

    def restore(self, metadata: Mapping[str, Any]) -> None:
        """Do nothing: all Params are JSON."""

    def _transform(self, dataset: "DataFrame") -> "DataFrame":
        features, how = self.features(self.model), self.getOrDefault(self.handleInvalid)
        frame, names, added = dataset, columns_of(features), [_OUTPUT]
        if how == "skip":
            frame = without_invalid(dataset, names)
        elif how == "keep":
            frame, filled = with_filled(dataset, names, self._shapes(features))
            given = dict(zip(names, filled, strict=True))
            features, added = _renamed(features, given), [_OUTPUT, VALID, *filled]
        predicted = self.network(frame).predict(
            frame,
            features=features,
            batch_size=self.getOrDefault(self.batchSize),
            output_column=_OUTPUT,
        )
        found = {name: column for name, column in self._columns(predicted[_OUTPUT]) if name}
        if how == "keep":
            found = {n: functions.when(predicted[VALID], c) for n, c in found.items()}
        if taken := [name for name in found if name in dataset.columns]:
            raise ConfigurationError(
                f"output columns must be new ones. Received: a DataFrame that has {taken}. Choose "
                "other names, or drop these columns."
            )
        return predicted.withColumns(found).drop(*added)

    def _shapes(self, features: Any) -> dict[str, tuple[int | None, ...]]:
        """Return the shape of an example by column, of columns that are inputs."""
        shapes = list(input_shapes(self.model).values())
        names = columns_of(features)
        return dict(zip(names, shapes, strict=True)) if len(names) == len(shapes) else {}

    def _columns(self, output: "Column") -> "Iterator[tuple[str, Column]]":
        """Yield the names and values of the new columns, computed from the model's output."""
        outputs = output_types(self.model)
        if self.task_of(self.model) == "regression":
            for param in (self.probabilityCol, self.rawPredictionCol):
                if self.isSet(param) and self.getOrDefault(param):
                    raise ConfigurationError(
                        f"`{param.name}` is for classification. Received: {param.name}="
                        f"{self.getOrDefault(param)!r} for a regression model. Clear it, or set "
                        '`task="classification"`.'
                    )
            is_number = [shape for _, shape in outputs.values()] in ([()], [(1,)])
            yield self.getPredictionCol(), output.cast("double") if is_number else output
            return
        raw, probability = _class_columns(self.model, output)
        yield self.getRawPredictionCol(), array_to_vector(raw)
        yield self.getProbabilityCol(), array_to_vector(probability)
        if self.isSet(self.thresholds):
            probability = self._over_thresholds(probability)
        # PySpark 3.5's `functions.array_position` does not accept a column as second argument.
        largest = functions.array_max(probability)
        most = functions.call_function("array_position", probability, largest)
        yield self.getPredictionCol(), (most - 1).cast("double")

    def _over_thresholds(self, probability: "Column") -> "Column":
        thresholds = self.getThresholds()
        if len(thresholds) != self.numClasses or not all(each > 0 for each in thresholds):
            raise ConfigurationError(
                f"`thresholds` must be {self.numClasses} numbers above 0, one per class. Received: "
                f"thresholds={thresholds}."
            )
        shares = (probability[place] / each for place, each in enumerate(thresholds))
        return functions.array(*shares)


def _renamed(features: Any, names: Mapping[str, str]) -> Any:
    """Return the features with other names of columns."""
    if isinstance(features, str):
        return names[features]
    if isinstance(features, dict):
        return {name: [names[each] for each in several] for name, several in features.items()}  # pyright: ignore
    return [names[each] for each in features]


_SINGLE = ((), (1,))  # shapes of one number for two classes


def _shape_of(model: Any) -> tuple[Any, ...]:
    """Return the shape of a classifier's output: (classes,), or of one number."""
    (_, shape), *others = output_types(model).values()
    if others or len(shape) > 1:
        raise ConfigurationError(
            "a classifier in a pipeline must have one output of the shape (classes,) or (1,). "
            f"Received: {list(output_types(model).items())}. Use `network.predict`, or set "
            '`task="regression"` for the outputs as they are.'
        )
    return shape


def _class_columns(model: Any, output: "Column") -> "tuple[Column, Column]":
    """Return raw predictions and probabilities as arrays with one double per class."""
    if _shape_of(model) in _SINGLE:
        number = output.cast("double")
        if not has_logits(model):
            pair = functions.array(1 - number, number)
            return pair, pair
        share = 1 / (1 + functions.exp(-number))
        return functions.array(-number, number), functions.array(1 - share, share)
    numbers = output.cast("array<double>")
    if not has_logits(model):
        return numbers, numbers
    powers = functions.transform(numbers, lambda x: functions.exp(x - functions.array_max(numbers)))
    total = functions.aggregate(powers, functions.lit(0.0), lambda sum_, x: sum_ + x)
    return numbers, functions.transform(powers, lambda x: x / total)
