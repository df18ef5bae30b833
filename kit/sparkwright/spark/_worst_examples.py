"""The examples with the highest loss of distributed data, found in one pass."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkwright.data import DataSet, DistributedDataSet, Normalizer, from_bytes
from sparkwright.errors import DataError
from sparkwright.evaluation import WorstExample, WorstExamples
from sparkwright.workers._requests import Predicting, Scoring

from ._inference import Inference, InferenceSession, normalized, with_normalized_features
from ._jobs import run_job

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Found(NamedTuple):
    """The result of one or several partitions.

    Attributes:
        worst: its worst examples, or an error, which is not raised: another attempt of the task
            would only repeat it.
        partition: the first one.
    """

    worst: WorstExamples | DataError
    partition: int


def worst_examples(
    inference: Inference,
    data: DistributedDataSet,
    *,
    count: int,
    normalizer: Normalizer | None,
    class_names: Mapping[str, tuple[str, ...]],
) -> WorstExamples:
    """The `count` examples with the highest loss.

    Each task keeps `count` examples, and predicts these alone; the driver gets `count` of each
    pair of tasks at a time. The loss leaves regularization out, which is the same for all.

    Args:
        inference: the network.
        data: examples with labels.
        count: how many, at least 1.
        normalizer: what the network sees goes through it; the examples returned do not. None: none.
        class_names: output name -> names of its classes.

    Raises:
        ConfigurationError: if `count` is no integer of at least 1.
        DataError: if the data does not fit the network, has no labels, or no examples.
    """
    empty = WorstExamples(count, class_names=dict(class_names))
    task = _task(inference, empty, normalizer)
    worst = run_job(
        data.spark,
        lambda: data.rdd.mapPartitionsWithIndex(task).treeReduce(_added),
        description="worst examples",
    ).worst
    if isinstance(worst, DataError):
        raise worst
    if not worst.scored:
        raise DataError(
            "the worst examples need at least one example. Received: data without examples."
        )
    return worst


def _task(
    inference: Inference, empty: WorstExamples, normalizer: Normalizer | None
) -> Callable[[int, Iterable[bytes]], list[_Found]]:
    def task(partition: int, chunks: Iterable[bytes]) -> list[_Found]:
        worst = empty
        try:
            session = InferenceSession(inference)
            for block in inference.blocks(_seen(chunks, inference, normalizer)):
                losses = session.run(block.dataset, Scoring(each=True, regularization=False))
                for raw, rows in block.parts:
                    worst += _of_piece(raw, losses[rows], empty.count, partition, worst.scored)
            worst = worst.with_predictions(_predicted(session, worst, normalizer))
        except DataError as error:
            where = f"Scored from row {worst.scored} of partition {partition}."
            return [_Found(DataError(f"{error} {where}"), partition)]
        return [_Found(worst, partition)]

    return task


def _seen(
    chunks: Iterable[bytes], inference: Inference, normalizer: Normalizer | None
) -> Iterator[tuple[DataSet, DataSet]]:
    """Small pieces as they are, and as the network is trained on them."""
    for chunk in chunks:
        for raw in inference.cut(from_bytes(chunk)):
            yield raw, normalized(normalizer, raw)


def _of_piece(
    raw: DataSet, losses: "NDArray[np.float64]", count: int, partition: int, first_row: int
) -> WorstExamples:
    return WorstExamples.of_rows(
        losses,
        raw.features,
        raw.labels,
        features_masks=raw.features_masks,
        count=count,
        partition=partition,
        first_row=first_row,
    )


def _predicted(
    session: InferenceSession, worst: WorstExamples, normalizer: Normalizer | None
) -> Iterator[dict[str, Any]]:
    """The outputs for the examples kept; neighbors of one layout at a time."""
    what = Predicting(normalizer=normalizer)
    pieces = [
        (number, with_normalized_features(normalizer, _alone(example)))
        for number, example in enumerate(worst)
    ]
    for block in session.inference.blocks(pieces):
        outputs = session.run(block.dataset, what)
        for row in range(len(block.dataset)):
            yield {name: array[row] for name, array in outputs.items()}


def _alone(example: WorstExample) -> DataSet:
    return DataSet(
        {name: array[None] for name, array in example.features.items()},
        features_masks={name: array[None] for name, array in example.features_masks.items()},
    )


def _added(one: _Found, other: _Found) -> _Found:
    first, second = sorted((one, other), key=lambda found: found.partition)
    if isinstance(first.worst, DataError):
        return first
    if isinstance(second.worst, DataError):
        return second
    return first._replace(worst=first.worst + second.worst)
