"""Evaluations, scores and worst examples of distributed data.

Each task folds the blocks of its partition; Spark combines the results of the tasks.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkwright.cluster.jobs import run_job
from sparkwright.data import DataSet, DistributedDataSet, Normalizer, from_bytes
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import AbstractEvaluation, WorstExample, WorstExamples
from sparkwright.workers.inference import Evaluations as Counted, LossSum
from sparkwright.workers.requests import Evaluating, Predicting, Scoring

from ._exact_roc import SCORES_ON_DRIVER, digested
from ._inference import (
    Block,
    Inference,
    InferenceSession,
    mapped_pieces,
    normalized,
    with_normalized_features,
)
from .gpus import on_gpus

if TYPE_CHECKING:
    from pyspark import RDD

# Accepted arguments: one evaluation, several, or either by output name.
Some = AbstractEvaluation | Sequence[AbstractEvaluation]
Evaluations = Some | Mapping[str, Some]


def by_output(
    evaluations: Evaluations, outputs: Sequence[str]
) -> dict[str, tuple[AbstractEvaluation, ...]]:
    """Return evaluations by output name, from the argument of `SparkNetwork.do_evaluation`."""
    if not isinstance(evaluations, Mapping):
        if len(outputs) != 1:
            raise ConfigurationError(
                f"evaluations of a network with the outputs {list(outputs)} need output names. "
                "Received: no name. Pass a dict {output: evaluations}, or `output=`."
            )
        evaluations = {outputs[0]: evaluations}
    wrong = sorted(set(evaluations) - set(outputs))
    if wrong:
        raise ConfigurationError(
            f"evaluations must be for the network's outputs {list(outputs)}. Received: {wrong}."
        )
    found = {name: _several(some) for name, some in evaluations.items()}
    for each in (each for several in found.values() for each in several):
        if not isinstance(each, AbstractEvaluation):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"evaluations must be values such as `Evaluation()` or `ROC()`. Received: {each!r}."
            )
        if each.examples:
            raise ConfigurationError(
                "evaluations must be empty. Received: one that has already counted "
                f"{each.examples} examples. Pass a new one, and add the two (`a + b`)."
            )
    if not any(found.values()):
        raise ConfigurationError("`do_evaluation` needs at least one evaluation. Received: none.")
    return found


def in_given_form(evaluations: Evaluations, found: Counted) -> Any:
    """Return the results in the form of the `evaluations` argument."""
    if isinstance(evaluations, Mapping):
        return {name: _alike(some, found[name]) for name, some in evaluations.items()}
    return _alike(evaluations, next(iter(found.values())))


def _several(some: Any) -> tuple[AbstractEvaluation, ...]:
    return tuple(some) if isinstance(some, list | tuple) else (some,)


def _alike(some: Some, found: tuple[AbstractEvaluation, ...]) -> Any:
    return found[0] if isinstance(some, AbstractEvaluation) else list(found)


class _Folded(NamedTuple):
    """The result of one or several partitions."""

    result: Any  # None without examples
    partition: int  # index of the first
    # A DataError of that partition. If it were raised, Spark would retry the task three times.
    error: Exception | None = None


# (session, block, partition, first row) -> the result of the block.
Visit = Callable[[InferenceSession, "Block[DataSet]", int, int], Any]


def evaluate(
    inference: Inference,
    data: DistributedDataSet,
    evaluations: Mapping[str, tuple[AbstractEvaluation, ...]],
    *,
    normalizer: Normalizer | None,
) -> Counted:
    """Evaluate all of `data` with the prototypes of each output, in one pass."""
    what = Evaluating(evaluations=evaluations, normalizer=normalizer)
    prototypes = [each for several in evaluations.values() for each in several]
    named = any(each.keeps_records for each in prototypes)

    def visit(
        session: InferenceSession, block: Block[DataSet], partition: int, row: int
    ) -> Counted:
        rows = range(row, row + len(block.dataset)) if named else ()
        records = [[partition, number] for number in rows] if named else None
        return session.run(block.dataset, what, records)

    seen = partial(with_normalized_features, normalizer)
    counts = _folded(inference, data, visit, _added_evaluations, seen=seen)
    if any(each.scores_kept is not None for each in prototypes):
        action = partial(_without_many_rows, counts, evaluations)
    else:
        action = partial(_total, counts, _added_evaluations, "an evaluation needs")
    return run_job(data.spark, action, description="evaluation")


def score(
    inference: Inference, data: DistributedDataSet, *, normalizer: Normalizer | None
) -> LossSum:
    """Compute the loss over all of `data`, with normalized features and labels."""

    def visit(
        session: InferenceSession, block: Block[DataSet], partition: int, row: int
    ) -> LossSum:
        return session.run(block.dataset, Scoring())

    losses = _folded(inference, data, visit, _added_losses, seen=partial(normalized, normalizer))
    action = partial(_total, losses, _added_losses, "a score needs")
    return run_job(data.spark, action, description="score")


def worst_examples(
    inference: Inference,
    data: DistributedDataSet,
    *,
    count: int,
    normalizer: Normalizer | None,
    class_names: Mapping[str, tuple[str, ...]],
) -> WorstExamples:
    """Return the `count` examples with the highest loss."""
    empty = WorstExamples(count, class_names=dict(class_names))
    what = Scoring(each=True, regularization=False)  # regularization is the same for all

    def visit(
        session: InferenceSession, block: Block[DataSet], partition: int, row: int
    ) -> WorstExamples:
        losses = session.run(block.dataset, what)
        worst = empty
        for raw, rows in block.parts:
            worst += WorstExamples.of_rows(
                losses[rows],
                raw.features,
                raw.labels,
                features_masks=raw.features_masks,
                count=count,
                partition=partition,
                first_row=row + rows.start,
            )
        return worst

    found = _folded(
        inference,
        data,
        visit,
        operator.add,
        seen=partial(normalized, normalizer),
        finished=lambda worst: worst.with_predictions(_predicted(inference, worst, normalizer)),
        verb="Scored",
    )
    action = partial(_total, found, operator.add, "the worst examples need")
    return run_job(data.spark, action, description="worst examples")


# -- the fold -------------------------------------------------------------------------------


def _folded(
    inference: Inference,
    data: DistributedDataSet,
    visit: Visit,
    added: Callable[[Any, Any], Any],
    *,
    seen: Callable[[DataSet], DataSet],
    finished: Callable[[Any], Any] = lambda result: result,
    verb: str = "Counted",
) -> "RDD[_Folded]":
    """Return the partitions' results, lazily; `seen` turns raw examples into network inputs."""

    def task(partition: int, chunks: Iterable[bytes]) -> list[_Folded]:
        result: Any = None
        row = 0
        try:
            session = InferenceSession(inference)
            raw = (piece for chunk in chunks for piece in inference.cut(from_bytes(chunk)))
            for block in inference.blocks((piece, seen(piece)) for piece in raw):
                found = visit(session, block, partition, row)
                result = found if result is None else added(result, found)
                row += len(block.dataset)
            result = None if result is None else finished(result)
        except DataError as error:
            where = f"{verb} from row {row} of partition {partition}."
            return [_Folded(None, partition, DataError(f"{error} {where}"))]
        return [_Folded(result, partition)]

    return on_gpus(data.rdd.mapPartitionsWithIndex(task))


def _total(parts: "RDD[_Folded]", added: Callable[[Any, Any], Any], needs: str) -> Any:
    """Return the sum of the partitions' results; runs a Spark job."""

    def add(one: _Folded | None, other: _Folded | None) -> _Folded | None:
        if one is None or other is None:
            return other if one is None else one
        first, second = sorted((one, other), key=lambda part: part.partition)
        if first.error or second.error:
            return first if first.error else second
        if first.result is None or second.result is None:
            return first._replace(result=second.result if first.result is None else first.result)
        return first._replace(result=added(first.result, second.result))

    total = parts.treeAggregate(None, add, add)  # of a frame without partitions: None
    if total is not None and total.error is not None:
        raise total.error
    if total is None or total.result is None:
        raise DataError(f"{needs} at least one example. Received: data without examples.")
    return total.result


def _added_evaluations(one: Counted, other: Counted) -> Counted:
    return {
        name: tuple(a + b for a, b in zip(found, other[name], strict=True))
        for name, found in one.items()
    }


def _added_losses(one: LossSum, other: LossSum) -> LossSum:
    sums: list[Any] = [a + b for a, b in zip(one, other, strict=True)]
    return LossSum(*sums)


def _predicted(
    inference: Inference, worst: WorstExamples, normalizer: Normalizer | None
) -> Iterator[dict[str, Any]]:
    """Yield the outputs for the kept examples, batching neighbors of the same layout."""
    pieces = ((None, with_normalized_features(normalizer, _alone(each))) for each in worst)
    for _, outputs in mapped_pieces(inference, Predicting(normalizer=normalizer), pieces):
        yield {name: array[0] for name, array in outputs.items()}


def _alone(example: WorstExample) -> DataSet:
    return DataSet(
        {name: array[None] for name, array in example.features.items()},
        features_masks={name: array[None] for name, array in example.features_masks.items()},
    )


# -- exact ROCs -----------------------------------------------------------------------------


def _without_many_rows(
    counts: "RDD[_Folded]", evaluations: Mapping[str, tuple[AbstractEvaluation, ...]]
) -> Counted:
    """Add up small results on the driver; exact ROCs of many rows stay on the cluster."""
    from pyspark import StorageLevel

    counts = counts.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = _total(counts.map(_small), _added_evaluations, "an evaluation needs")
        return {
            name: tuple(
                _added_or_digested(counts, name, i, each, *found[name][i].tolist())
                if each.scores_kept is not None
                else found[name][i]
                for i, each in enumerate(prototypes)
            )
            for name, prototypes in evaluations.items()
        }
    finally:
        counts.unpersist()


def _added_or_digested(
    counts: "RDD[_Folded]",
    name: str,
    number: int,
    kind: AbstractEvaluation,
    examples: int,
    scores: int,
) -> AbstractEvaluation:
    """Return an exact ROC, or its digest if there are too many scores for the driver."""
    parts = counts.filter(lambda part: part.result is not None).map(
        lambda part: part.result[name][number]
    )
    if scores > SCORES_ON_DRIVER:
        return digested(kind, parts, examples=examples)
    return parts.treeReduce(operator.add)


def _small(part: _Folded) -> _Folded:
    """Return a partition's result, with counts in place of evaluations that grow with the data."""
    small = part.result and {
        name: tuple(
            each if each.scores_kept is None else np.array([each.examples, each.scores_kept])
            for each in found
        )
        for name, found in part.result.items()
    }
    return part._replace(result=small)
