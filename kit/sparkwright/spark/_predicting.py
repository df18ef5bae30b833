"""Lazy predictions and losses of single examples, in order, for every kind of data."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkwright.data import DataSet, DistributedDataSet, Normalizer, from_bytes, to_bytes
from sparkwright.data.chunks import errors_as_chunks
from sparkwright.errors import DataError
from sparkwright.workers.requests import Predicting, Scoring

from ._inference import (
    Inference,
    mapped_pieces,
    normalized,
    with_normalized_features,
)
from .gpus import on_gpus

if TYPE_CHECKING:
    from pyspark import RDD


def predict_dataset(
    inference: Inference,
    data: DistributedDataSet,
    *,
    normalizer: Normalizer | None,
) -> DistributedDataSet:
    """Return a data set whose features are the network's outputs, with labels and weights."""
    what = Predicting(normalizer=normalizer)

    @errors_as_chunks
    def with_outputs(chunks: Iterable[bytes]) -> Iterator[bytes]:
        # Each piece is its own tag, which keeps its labels and weights.
        known = map(from_bytes, chunks)
        pieces = (
            (piece, _features_of(normalizer, piece))
            for whole in known
            for piece in inference.cut(whole)
        )
        for piece, outputs in mapped_pieces(inference, what, pieces):
            yield to_bytes(
                DataSet(
                    outputs,
                    piece.labels,
                    labels_masks=piece.labels_masks,
                    weights=piece.weights,
                )
            )

    predicted = data.derive(
        on_gpus(data.rdd.mapPartitions(with_outputs)),
        step=f"prediction {inference.digest}",
        counts=data.partition_counts() if data.is_counted else None,
    )
    predicted.schema = None  # its features are not columns of the table
    return predicted


class _Key(NamedTuple):
    """The key of examples, and whether the value was a single example."""

    key: Any
    single: bool


def predict_keyed(
    inference: Inference,
    pairs: "RDD[Any]",
    *,
    inputs: Mapping[str, int],
    normalizer: Normalizer | None,
) -> "RDD[Any]":
    """Map (key, features) to (key, outputs); see `SparkNetwork.predict`."""
    what = Predicting(normalizer=normalizer)

    def outputs_of(records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        pieces = (_keyed(record, inputs) for record in records)
        seen = ((tag, _features_of(normalizer, dataset)) for tag, dataset in pieces)
        for tag, outputs in mapped_pieces(
            inference, what, seen, called=lambda tag: f"key={tag.key!r}"
        ):
            found = {n: array[0] if tag.single else array for n, array in outputs.items()}
            yield tag.key, next(iter(found.values())) if len(found) == 1 else found

    return on_gpus(pairs.mapPartitions(outputs_of))


def _features_of(normalizer: Normalizer | None, data: DataSet) -> DataSet:
    """Return the network's inputs, without labels."""
    features = DataSet(data.features, features_masks=data.features_masks)
    return with_normalized_features(normalizer, features)


def _keyed(record: Any, inputs: Mapping[str, int]) -> tuple[_Key, DataSet]:
    if not (isinstance(record, tuple) and len(record) == 2):
        raise DataError(
            "each element of the RDD must be a (key, features) pair. Received: "
            f"{type(record).__name__}."
        )
    key, value = record
    if isinstance(value, DataSet):
        _require_examples(len(value), key)
        return _Key(key, single=False), DataSet(value.features, features_masks=value.features_masks)
    features, masks = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    arrays = _by_input(features, inputs, key)
    axes = {name: array.ndim - inputs[name] for name, array in arrays.items()}
    if set(axes.values()) - {0, 1} or len(set(axes.values())) != 1:
        raise DataError(
            "features of a key must be one example, or several with a batch axis, the same for "
            f"all inputs. Received: key={key!r} with shapes "
            f"{ {name: array.shape for name, array in arrays.items()} } for inputs whose examples "
            f"have {dict(inputs)} axes."
        )
    single = next(iter(axes.values())) == 0
    named_masks = {} if masks is None else _by_input(masks, inputs, key)
    if single:
        arrays = {name: array[None] for name, array in arrays.items()}
        named_masks = {name: array[None] for name, array in named_masks.items()}
    _require_examples(min(len(array) for array in arrays.values()), key)
    return _Key(key, single), DataSet(arrays, features_masks=named_masks)


def _require_examples(count: int, key: Any) -> None:
    if not count:
        raise DataError(
            f"each key must have at least one example. Received: none for key={key!r}. Remove such "
            "keys."
        )


def _by_input(value: Any, inputs: Mapping[str, int], key: Any) -> dict[str, Any]:
    """Return arrays by input name, from a dict, a list in the order of inputs, or one array."""
    if isinstance(value, Mapping):
        found = {str(name): np.asarray(array) for name, array in value.items() if array is not None}
        if len(inputs) == 1 and len(found) == 1:
            return {next(iter(inputs)): next(iter(found.values()))}
        if not set(found) <= set(inputs):
            raise DataError(
                f"names must be the network's inputs {list(inputs)}. Received: "
                f"{list(found)} for key={key!r}."
            )
        return found
    if len(inputs) == 1:
        return {next(iter(inputs)): np.asarray(value)}
    if isinstance(value, list) and len(value) == len(inputs):
        pairs = zip(inputs, value, strict=True)
        return {name: np.asarray(array) for name, array in pairs if array is not None}
    raise DataError(
        f"features for the inputs {list(inputs)} must be a dict by name or a list in this order. "
        f"Received: {type(value).__name__} for key={key!r}."
    )


def score_examples(
    inference: Inference,
    data: DistributedDataSet,
    *,
    normalizer: Normalizer | None,
    regularization: bool,
) -> "RDD[float]":
    """Return the loss of each example, in order."""
    what = Scoring(each=True, regularization=regularization)

    def losses(chunks: Iterable[bytes]) -> Iterator[float]:
        known = (normalized(normalizer, from_bytes(chunk)) for chunk in chunks)
        pieces = ((None, piece) for whole in known for piece in inference.cut(whole))
        for _, found in mapped_pieces(inference, what, pieces):
            yield from found.tolist()

    return on_gpus(data.rdd.mapPartitions(losses))


def score_keyed(
    inference: Inference,
    pairs: "RDD[Any]",
    *,
    normalizer: Normalizer | None,
    regularization: bool,
) -> "RDD[Any]":
    """Map (key, DataSet of one example) or (key, (features, label)) to (key, loss)."""
    what = Scoring(each=True, regularization=regularization)

    def losses(records: Iterable[Any]) -> Iterator[tuple[Any, float]]:
        pieces = ((key, normalized(normalizer, data)) for key, data in map(_one, records))
        for key, found in mapped_pieces(inference, what, pieces):
            yield key, float(found[0])

    return on_gpus(pairs.mapPartitions(losses))


def _one_example(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: np.asarray(array)[None] for name, array in value.items()}
    return np.asarray(value)[None]


def _one(record: Any) -> tuple[Any, DataSet]:
    if not (isinstance(record, tuple) and len(record) == 2):
        raise DataError(
            "each element of the RDD must be (key, DataSet) or (key, (features, label)). "
            f"Received: {type(record).__name__}."
        )
    key, value = record
    if isinstance(value, tuple) and len(value) == 2:
        features, label = value
        value = DataSet(_one_example(features), _one_example(label))
    if not isinstance(value, DataSet) or len(value) != 1:
        found = f"{len(value)} examples" if isinstance(value, DataSet) else type(value).__name__
        raise DataError(
            "each key must have exactly one example: a DataSet of one, or (features, label). "
            f"Received: {found} for key={key!r}."
        )
    return key, value
