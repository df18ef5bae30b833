"""Keras' preprocessing layers, adapted to distributed data in one pass."""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from sparkwright.cluster.engine_shipping import ship_engine
from sparkwright.data import DataSet, DistributedDataSet, LocalTable, from_dataframe
from sparkwright.data.adapting import Quantiles, moments_over
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.networks import ModelDefinition
from sparkwright.networks.adapted import lookup_of
from sparkwright.workers.adapting import TokenCounts
from sparkwright.workers.pool import TrainerPool, driver_secret
from sparkwright.workers.requests import AdaptRequest

from ._inference import error_of
from ._tasks import device_of


def adapt(layer: Any, data: Any, column: str | None = None) -> None:
    """Adapt preprocessing layers to all of the data in one pass, as `layer.adapt` does to arrays.

    Vocabularies are exactly those of `layer.adapt(all examples)`; mean and variance equal its to
    float32's precision; the bins of a Discretization hold shares of the examples that differ from
    equal ones by 0.01 at most, Keras' own default tolerance. Trainer processes count the tokens,
    with the layer's own code.

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
        DataError: if there are no examples or no such column, or they do not suit the layer.

    Example:
        words = keras.layers.TextVectorization(max_tokens=20_000)
        sw.adapt(words, frame, column="review")
    """
    layers = _by_column(layer, column)
    for each in layers.values():
        _check(each)
    source = _source(data, list(layers))
    if isinstance(source, DataSet):
        for name, each in layers.items():
            each.adapt(_array(source, name))
    else:
        ship_engine(source.spark)
        summaries = {name: _summary_of(each) for name, each in layers.items()}
        found = source.reduce_chunks(
            partial(_summarised, summaries=summaries), _merged, description="adapt layers"
        )
        if found is None:
            raise DataError("a layer needs at least one example to be adapted to. Received: none.")
        for name, each in layers.items():
            found[name].give(each)
    if _is_feature_space(layer):
        layer._is_adapted = True
        layer.get_encoded_features()
        layer.built = layer._sublayers_built = True


class _Summary(Protocol):
    """What a layer has to know of some examples; without any, a prototype that can find it."""

    def of(self, array: Any, name: str) -> Self: ...

    def merge(self, other: Any) -> Self: ...

    def give(self, layer: Any) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tokens:
    """For lookups and TextVectorization: how often each token occurs."""

    definition: ModelDefinition | None = None  # of the prototype, as is the secret
    secret: bytes = field(default=b"", repr=False)
    counts: Counter[Any] = field(default_factory=Counter[Any])
    documents: Counter[Any] = field(default_factory=Counter[Any])
    examples: int = 0

    def of(self, array: Any, name: str) -> "_Tokens":
        from pyspark import TaskContext

        del name
        assert self.definition is not None
        pool = TrainerPool(owner=os.getppid(), secret=self.secret)
        with pool.borrow(**device_of(TaskContext.get())) as trainer:
            answer = trainer.ask(AdaptRequest(definition=self.definition, examples=array))
        if answer.error:
            raise error_of(answer)
        found: TokenCounts = answer.result
        tokens = found.tokens.tolist()
        return _Tokens(
            counts=Counter(dict(zip(tokens, found.counts.tolist(), strict=True))),
            documents=Counter(dict(zip(tokens, found.documents.tolist(), strict=False))),
            examples=found.examples,
        )

    def merge(self, other: "_Tokens") -> "_Tokens":
        self.counts.update(other.counts)
        self.documents.update(other.documents)
        examples = self.examples + other.examples
        return _Tokens(counts=self.counts, documents=self.documents, examples=examples)

    def give(self, layer: Any) -> None:
        lookup = lookup_of(layer)
        layer.reset_state()
        _insert(lookup.token_counts, self.counts, lookup.vocabulary_dtype)
        if lookup.output_mode == "tf_idf":
            _insert(lookup.token_document_counts, self.documents, lookup.vocabulary_dtype)
            lookup.num_documents.assign(self.examples)
        layer.finalize_state()


@dataclass(frozen=True, kw_only=True, slots=True)
class _MeanAndVariance:
    """For Normalization."""

    axis: tuple[int, ...]
    moments: Any = None
    shape: tuple[int, ...] = ()

    def of(self, array: Any, name: str) -> "_MeanAndVariance":
        moments = moments_over(array, self.axis, name)
        return _MeanAndVariance(axis=self.axis, moments=moments, shape=array.shape[1:])

    def merge(self, other: "_MeanAndVariance") -> "_MeanAndVariance":
        if self.shape != other.shape:
            raise DataError(
                "a Normalization needs examples of one shape. Received: "
                f"{self.shape} and {other.shape}."
            )
        moments = self.moments.merge(other.moments)
        return _MeanAndVariance(axis=self.axis, moments=moments, shape=self.shape)

    def give(self, layer: Any) -> None:
        if not layer.built:
            layer.build((None, *self.shape))
        if tuple(layer.adapt_mean.shape) != self.moments.shape:
            raise DataError(
                f"the layer {layer.name!r} must get examples of the shape that it was built for, "
                f"{tuple(layer.adapt_mean.shape)} means. Received: {self.moments.shape} of them."
            )
        layer.adapt_mean.assign(self.moments.mean)
        layer.adapt_variance.assign(self.moments.std**2)
        layer.finalize_state()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bins:
    """For Discretization."""

    quantiles: Quantiles | None = None

    def of(self, array: Any, name: str) -> "_Bins":
        return _Bins(quantiles=Quantiles.of(array, name))

    def merge(self, other: "_Bins") -> "_Bins":
        assert self.quantiles is not None
        assert other.quantiles is not None
        return _Bins(quantiles=self.quantiles.merge(other.quantiles))

    def give(self, layer: Any) -> None:
        assert self.quantiles is not None
        layer.summary = np.stack([self.quantiles.values, self.quantiles.weights])
        layer.finalize_state()


def _by_column(layer: Any, column: str | None) -> dict[str | None, Any]:
    if not isinstance(layer, Mapping) and not _is_feature_space(layer):
        return {column: layer}
    if column is not None:
        raise ConfigurationError(
            f"`column` is for a single layer. Received: column={column!r} and several layers."
        )
    if isinstance(layer, Mapping):
        return dict(layer)  # pyright: ignore[reportUnknownArgumentType]
    return {name: layer.preprocessors[name] for name in layer._list_adaptable_preprocessors()}


def _is_feature_space(layer: Any) -> bool:
    import keras

    return isinstance(layer, keras.utils.FeatureSpace)


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


def _source(data: Any, columns: list[str | None]) -> DataSet | DistributedDataSet:
    from pyspark.sql import DataFrame

    if isinstance(data, LocalTable):
        return data.data
    if isinstance(data, DataSet | DistributedDataSet):
        return data
    if not isinstance(data, DataFrame):
        raise DataError(
            "`data` must be a DistributedDataSet, a Spark DataFrame or a DataSet. Received: "
            f"{type(data).__name__}. To arrays a layer adapts by itself: `layer.adapt(array)`."
        )
    names = [_only(data.columns) if column is None else column for column in columns]
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


def _summary_of(layer: Any) -> _Summary:
    import keras

    if isinstance(layer, keras.layers.Normalization):
        return _MeanAndVariance(axis=layer.axis)
    if isinstance(layer, keras.layers.Discretization):
        return _Bins()
    return _Tokens(definition=ModelDefinition.of_layer(layer), secret=driver_secret())


def _summarised(
    chunk: DataSet, partition: int, start: int, *, summaries: Mapping[str | None, _Summary]
) -> dict[str | None, _Summary]:
    del partition, start
    return {
        name: summary.of(_array(chunk, name), name or "features")
        for name, summary in summaries.items()
    }


def _merged(
    first: dict[str | None, _Summary], second: dict[str | None, _Summary]
) -> dict[str | None, _Summary]:
    return {name: summary.merge(second[name]) for name, summary in first.items()}


def _insert(table: Any, counts: Counter[Any], dtype: str) -> None:
    import tensorflow as tf

    if counts:
        tokens: Any = tf.constant(list(counts), dtype)
        table.insert(tokens, tf.constant(list(counts.values()), tf.int64))
