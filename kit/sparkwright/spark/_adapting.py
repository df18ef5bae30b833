"""Keras' preprocessing layers, adapted to distributed data in one pass."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sparkwright.cluster.engine_shipping import ship_engine
from sparkwright.data import DataSet, DistributedDataSet, from_dataframe
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.networks import ModelDefinition
from sparkwright.networks.adapted import lookup_of
from sparkwright.workers.adapting import counted, give, merged
from sparkwright.workers.pool import driver_secret
from sparkwright.workers.requests import Adapting

from ._inference import Inference, InferenceSession

# Input, or None for the only one -> what a task needs to adapt its layer.
Layers = dict[str | None, Any]


def adapt(layer: Any, data: Any, column: str | None = None) -> None:
    """Adapt preprocessing layers to all of the data in one pass, as `layer.adapt` does to arrays.

    Vocabularies are exactly those of `layer.adapt(all examples)`; mean and variance equal its to
    1e-6; the bins of a Discretization hold shares of the examples that differ from equal ones by
    0.01 at most, Keras' own default tolerance. Trainer processes run the layer's own code.

    Args:
        layer: a Normalization, StringLookup, IntegerLookup, TextVectorization or Discretization,
            also one that is part of a model; or input name -> such a layer, for several at once; or
            a `keras.utils.FeatureSpace`, whose features are matched by name.
        data: a DistributedDataSet or Spark DataFrame, or a DataSet, for which nothing is
            distributed. Each example is one document. Masks do not count.
        column: for one layer: the input, or the DataFrame's column, to adapt it to. Default None:
            the only one there is.

    Raises:
        ConfigurationError: if a layer has nothing to adapt.
        DataError: if there are no examples or no such column; for text where a layer takes numbers.

    Example:
        words = keras.layers.TextVectorization(max_tokens=20_000)
        sw.adapt(words, frame, column="review")
    """
    import keras

    layers: Layers = {column: layer}
    if isinstance(layer, keras.utils.FeatureSpace):
        layers = {name: layer.preprocessors[name] for name in layer._list_adaptable_preprocessors()}
    elif isinstance(layer, Mapping):
        layers = dict(layer)  # pyright: ignore[reportUnknownArgumentType]
    for each in layers.values():
        _check(each)
    if isinstance(data, DataSet):
        for name, each in layers.items():
            each.adapt(_array(data, name))
    else:
        _adapt_distributed(layers, _distributed(data, layers))
    if isinstance(layer, keras.utils.FeatureSpace):
        layer._is_adapted = True
        layer.get_encoded_features()
        layer.built = layer._sublayers_built = True


def _adapt_distributed(layers: Layers, data: DistributedDataSet) -> None:
    ship_engine(data.spark)
    described = {name: _described(each) for name, each in layers.items()}
    found = data.reduce_chunks(partial(_summaries, layers=described), _merged, description="adapt")
    if found is None:
        raise DataError("a layer needs at least one example to be adapted to. Received: none.")
    for name, each in layers.items():
        give(each, *found[name])


def _described(layer: Any) -> Inference:
    """The layer in place of a network; it has no weights and no outputs."""
    return Inference(
        definition=ModelDefinition.of_layer(layer),
        weights=None,
        digest="",
        batch_size=1,
        workers=None,
        outputs=(),
        secret=driver_secret(),
    )


def _summaries(chunk: DataSet, partition: int, start: int, *, layers: Layers) -> dict[Any, Any]:
    """Input -> a summary for its layer, and the shape of an example; in a Spark task."""
    del partition, start
    found: dict[Any, Any] = {}
    for name, inference in layers.items():
        array = _array(chunk, name)
        made = InferenceSession(inference).run(DataSet(array), Adapting())
        found[name] = counted(made), array.shape[1:]
    return found


def _merged(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    for name, (_, shape) in one.items():
        if other[name][1] != shape:
            raise DataError(
                f"a layer must be adapted to examples of one shape. Received: {shape} and "
                f"{other[name][1]}."
            )
    return {name: (merged(each, other[name][0]), shape) for name, (each, shape) in one.items()}


def _check(layer: Any) -> None:
    import keras

    kinds = keras.layers
    tokens = isinstance(layer, kinds.StringLookup | kinds.IntegerLookup | kinds.TextVectorization)
    if (
        (tokens and not lookup_of(layer)._has_input_vocabulary)
        or (isinstance(layer, kinds.Normalization) and layer.input_mean is None)
        or (isinstance(layer, kinds.Discretization) and layer.num_bins is not None)
    ):
        return
    raise ConfigurationError(
        "`layer` must be a Normalization, StringLookup, IntegerLookup, TextVectorization or "
        "Discretization that was given no mean, vocabulary or bin boundaries. Received: "
        f"{type(layer).__name__} {getattr(layer, 'name', '')!r}. Other layers need no `adapt`."
    )


def _distributed(data: Any, layers: Layers) -> DistributedDataSet:
    from pyspark.sql import DataFrame

    if isinstance(data, DistributedDataSet):
        return data
    if not isinstance(data, DataFrame):
        raise DataError(
            "`data` must be a DistributedDataSet, a Spark DataFrame or a DataSet. Received: "
            f"{type(data).__name__}. To arrays a layer adapts by itself: `layer.adapt(array)`."
        )
    names = [_only(data.columns) if name is None else name for name in layers]
    return from_dataframe(data, features={name: [name] for name in names})


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise DataError(
            f"`column` must name one of {names}, to adapt the layer to. Received: column=None."
        )
    return names[0]


def _array(data: DataSet, name: str | None) -> Any:
    known = list(data.features)
    name = _only(known) if name is None else name
    if name not in known:
        raise DataError(f"a layer must be adapted to one of {known}. Received: {name!r}.")
    return data.features[name]
