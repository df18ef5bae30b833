"""Adapt Keras preprocessing layers to distributed data in one pass."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sparkwright.cluster.shared_bytes import SharedBytes
from sparkwright.data import DataSet, DistributedDataSet, from_dataframe
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.networks import ModelDefinition
from sparkwright.networks.adapted import lookup_of
from sparkwright.workers.adapting import Summary, give, merged
from sparkwright.workers.pool import driver_secret
from sparkwright.workers.requests import Adapting

from ._inference import Inference, InferenceSession


def adapt(layer: Any, data: Any, column: str | None = None) -> None:
    """Adapt preprocessing layers to distributed data in one pass.

    Vocabularies equal those of `layer.adapt(all examples)`; mean and variance agree to 1e-6. Each
    bin of a Discretization holds an equal share of the examples to within 0.01, Keras' default
    tolerance. Trainer processes run the layer's own code.

    Args:
        layer: a Normalization, StringLookup, IntegerLookup, TextVectorization or Discretization,
            possibly part of a model; a dict from input name to layer; or a
            `keras.utils.FeatureSpace`, whose features are matched by name.
        data: a DistributedDataSet, a Spark DataFrame or a DataSet (adapted locally). Each example
            is one document. Masks are ignored.
        column: for a single layer, the input or DataFrame column to adapt to. Default None: the
            only one.

    Raises:
        ConfigurationError: if a layer has nothing to adapt.
        DataError: if there are no examples, a column is missing, or a numeric layer gets text.

    Example:
        words = keras.layers.TextVectorization(max_tokens=20_000)
        sw.adapt(words, frame, column="review")
    """
    import keras
    from pyspark.sql import DataFrame

    space: Any = layer if issubclass(type(layer), keras.utils.FeatureSpace) else None
    # Input name -> layer; the name None is the only input.
    layers: dict[str | None, Any] = {column: layer}
    if space is not None:
        layers = {name: space.preprocessors[name] for name in space._list_adaptable_preprocessors()}
    elif isinstance(layer, Mapping):
        layers = dict(layer)  # pyright: ignore[reportUnknownArgumentType]
    for each in layers.values():
        _check(each)
    if isinstance(data, DataFrame):
        names = [_only(data.columns) if name is None else name for name in layers]
        data = from_dataframe(data, features={name: [name] for name in names})
    if isinstance(data, DataSet):
        for name, each in layers.items():
            each.adapt(_array(data, name))
    elif isinstance(data, DistributedDataSet):
        layers_there = {name: _described(each) for name, each in layers.items()}
        summarize = partial(_summaries, layers=layers_there)
        found = data.reduce_chunks(summarize, _merged, description="adapt layers")
        if found is None:
            raise DataError("a layer must be adapted to at least one example. Received: none.")
        for name, each in layers.items():
            give(each, found[name])
    else:
        raise DataError(
            "`data` must be a DistributedDataSet, a Spark DataFrame or a DataSet. Received: "
            f"{type(data).__name__}. For arrays, call `layer.adapt(array)`."
        )
    if space is not None:
        space._is_adapted = True
        space.get_encoded_features()
        space.built = space._sublayers_built = True


def _check(layer: Any) -> None:
    is_fixed = (
        getattr(lookup_of(layer), "_has_input_vocabulary", False)
        or getattr(layer, "input_mean", None) is not None
        or getattr(layer, "num_bins", 1) is None
    )
    if is_fixed or not hasattr(layer, "adapt"):
        raise ConfigurationError(
            "`layer` must be a Normalization, StringLookup, IntegerLookup, TextVectorization or "
            "Discretization without a given mean, vocabulary or bin boundaries. Received: "
            f"{type(layer).__name__} {getattr(layer, 'name', '')!r}. Other layers need no `adapt`."
        )


def _described(layer: Any) -> Inference:
    """Return an Inference of the layer, without weights and outputs."""
    definition, secret = ModelDefinition.of_layer(layer), driver_secret()
    sizes: dict[str, Any] = {"batch_size": 1, "workers": None, "outputs": ()}
    return Inference(
        definition=definition, weights=SharedBytes(()), digest="", secret=secret, **sizes
    )


def _summaries(
    chunk: DataSet, partition: int, start: int, *, layers: Mapping[str | None, Inference]
) -> dict[str | None, Summary]:
    """Summarize a chunk for each layer, by input name; runs in a Spark task."""
    del partition, start
    return {
        name: InferenceSession(layer).run(DataSet(_array(chunk, name)), Adapting())
        for name, layer in layers.items()
    }


def _merged(
    one: dict[str | None, Summary], other: dict[str | None, Summary]
) -> dict[str | None, Summary]:
    return {name: merged(summary, other[name]) for name, summary in one.items()}


def _array(data: DataSet, name: str | None) -> Any:
    name = _only(list(data.features)) if name is None else name
    if name not in data.features:
        raise DataError(
            f"a layer must be adapted to one of {list(data.features)}. Received: {name!r}."
        )
    return data.features[name]


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise DataError(f"`column` must name one of {names}. Received: column=None.")
    return names[0]
