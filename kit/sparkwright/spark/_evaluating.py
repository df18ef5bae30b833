"""Evaluations and scores over distributed data: counted by partition, added up by Spark."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkwright.data import DataSet, DistributedDataSet, Normalizer, from_bytes
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import AbstractEvaluation
from sparkwright.workers._inference import Evaluations as Counted, LossSum
from sparkwright.workers._requests import Evaluating, Scoring

from ._exact_roc import SCORES_ON_DRIVER, digested, scores_kept
from ._gpus import on_gpus
from ._inference import Inference, InferenceSession, normalized, with_normalized_features
from ._jobs import run_job

if TYPE_CHECKING:
    from pyspark import RDD

# What users may give: one evaluation, several, or either by output name.
Some = AbstractEvaluation | Sequence[AbstractEvaluation]
Evaluations = Some | Mapping[str, Some]


def by_output(
    evaluations: Evaluations, outputs: Sequence[str]
) -> dict[str, tuple[AbstractEvaluation, ...]]:
    """Output name -> evaluations.

    Args:
        evaluations: as `SparkNetwork.do_evaluation` takes them.
        outputs: the network's.

    Raises:
        ConfigurationError: if there is no such output, outputs are not named and there are several,
            or something is no evaluation.
    """
    if not isinstance(evaluations, Mapping):
        if len(outputs) != 1:
            raise ConfigurationError(
                f"evaluations of a network with the outputs {list(outputs)} must say which one "
                "they are for. Received: no name. Give a dict {output: evaluations}, or `output=`."
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
                "evaluations must be given without data. Received: one that has counted "
                f"{each.examples} examples. Give a new one, and add the two (`a + b`)."
            )
    if not any(found.values()):
        raise ConfigurationError("`do_evaluation` needs at least one evaluation. Received: none.")
    return found


def in_given_form(evaluations: Evaluations, found: Counted) -> Any:
    """The results in the form in which `evaluations` were given."""
    if isinstance(evaluations, Mapping):
        return {name: _alike(some, found[name]) for name, some in evaluations.items()}
    return _alike(evaluations, next(iter(found.values())))


def _several(some: Any) -> tuple[AbstractEvaluation, ...]:
    return tuple(some) if isinstance(some, list | tuple) else (some,)


def _alike(some: Some, found: tuple[AbstractEvaluation, ...]) -> Any:
    return found[0] if isinstance(some, AbstractEvaluation) else list(found)


class _Counted(NamedTuple):
    """The result of one or several partitions.

    Attributes:
        result: evaluations by output, or a `LossSum`; None where there were no examples.
        partition: the first one.
        error: the error there; one that another attempt would only repeat is not raised
            in the task, where Spark would try three times more.
    """

    result: Any
    partition: int
    error: Exception | None = None


def evaluate(
    inference: Inference,
    data: DistributedDataSet,
    evaluations: Mapping[str, tuple[AbstractEvaluation, ...]],
    *,
    normalizer: Normalizer | None,
) -> Counted:
    """Count all of `data` into the prototypes, in one pass.

    Args:
        inference: the network.
        data: examples with labels.
        evaluations: output name -> prototypes.
        normalizer: applied to the features; outputs are brought to the labels' units. None: none.

    Raises:
        DataError: if the data does not fit the network or has no labels, or is empty.
    """
    what = Evaluating(evaluations=evaluations, normalizer=normalizer)
    prototypes = [each for several in evaluations.values() for each in several]
    task = _counting(
        inference,
        what,
        _added_evaluations,
        seen=partial(with_normalized_features, normalizer),
        named=any(each.keeps_records for each in prototypes),
    )
    counts = on_gpus(data.rdd.mapPartitionsWithIndex(task))
    if not any(each.keeps_rows for each in prototypes):
        add = _adding(_added_evaluations)
        counted = run_job(data.spark, lambda: counts.treeReduce(add), description="evaluation")
        return _result_of(counted, "an evaluation")
    return run_job(
        data.spark, lambda: _without_many_rows(counts, evaluations), description="evaluation"
    )


def _without_many_rows(
    counts: "RDD[_Counted]", evaluations: Mapping[str, tuple[AbstractEvaluation, ...]]
) -> Counted:
    """Add up on the driver what is small; exact ROCs of many rows stay on the cluster."""
    from pyspark import StorageLevel

    counts = counts.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        small = counts.map(_small).treeReduce(_adding(_added_small))
        found = _result_of(small, "an evaluation")
        result: Counted = {}
        for name, prototypes in evaluations.items():
            each = [
                found[name, i]
                if not prototype.keeps_rows
                else _added_or_digested(counts, name, i, prototype, found[name, i].tolist())
                for i, prototype in enumerate(prototypes)
            ]
            result[name] = tuple(each)
        return result
    finally:
        counts.unpersist()


def _added_or_digested(
    counts: "RDD[_Counted]", name: str, number: int, kind: AbstractEvaluation, held: list[int]
) -> AbstractEvaluation:
    """Exact ROCs of all parts, or their digest if the driver should not hold so many scores."""
    examples, scores = held
    parts = counts.filter(lambda counted: counted.result is not None).map(
        lambda counted: counted.result[name][number]
    )
    if scores > SCORES_ON_DRIVER:
        return digested(kind, parts, examples=examples)
    return parts.treeReduce(lambda one, other: one + other)


def _small(counted: _Counted) -> _Counted:
    """The result of a partition, with sizes instead of evaluations that grow."""
    if counted.result is None:
        return counted
    return counted._replace(
        result={
            (name, i): np.array([each.examples, scores_kept(each)]) if each.keeps_rows else each
            for name, found in counted.result.items()
            for i, each in enumerate(found)
        }
    )


def _added_small(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value + other[key] for key, value in one.items()}


def score(
    inference: Inference, data: DistributedDataSet, *, normalizer: Normalizer | None
) -> LossSum:
    """The loss over all of `data`, features and labels normalized.

    Raises:
        DataError: if the data does not fit the network or has no labels, or is empty.
    """
    task = _counting(inference, Scoring(), _added_losses, seen=partial(normalized, normalizer))
    counted = run_job(
        data.spark,
        lambda: on_gpus(data.rdd.mapPartitionsWithIndex(task)).treeReduce(_adding(_added_losses)),
        description="score",
    )
    return _result_of(counted, "a score")


def _counting(
    inference: Inference,
    what: Evaluating | Scoring,
    added: Callable[[Any, Any], Any],
    *,
    seen: Callable[[DataSet], DataSet],
    named: bool = False,
) -> Callable[[int, Iterable[bytes]], list[_Counted]]:
    def task(partition: int, chunks: Iterable[bytes]) -> list[_Counted]:
        total: Any = None
        row = 0
        try:
            session = InferenceSession(inference)
            for block in inference.blocks(_pieces(chunks, seen, inference)):
                rows = len(block.dataset)
                records = [[partition, row + i] for i in range(rows)] if named else None
                found = session.run(block.dataset, what, records)
                total = found if total is None else added(total, found)
                row += rows
        except DataError as error:
            where = f"Counted from row {row} of partition {partition}."
            return [_Counted(None, partition, DataError(f"{error} {where}"))]
        return [_Counted(total, partition)]

    return task


def _pieces(
    chunks: Iterable[bytes], seen: Callable[[DataSet], DataSet], inference: Inference
) -> Iterator[tuple[None, DataSet]]:
    for chunk in chunks:
        for piece in inference.cut(seen(from_bytes(chunk))):
            yield None, piece


def _adding(added: Callable[[Any, Any], Any]) -> Callable[[_Counted, _Counted], _Counted]:
    def add(one: _Counted, other: _Counted) -> _Counted:
        first, second = sorted((one, other), key=lambda counted: counted.partition)
        if first.error or second.error:
            return first if first.error else second
        if first.result is None or second.result is None:
            return first._replace(result=second.result if first.result is None else first.result)
        return first._replace(result=added(first.result, second.result))

    return add


def _added_evaluations(one: Counted, other: Counted) -> Counted:
    return {
        name: tuple(a + b for a, b in zip(found, other[name], strict=True))
        for name, found in one.items()
    }


def _added_losses(one: LossSum, other: LossSum) -> LossSum:
    return LossSum(one.examples + other.examples, one.total + other.total)


def _result_of(counted: _Counted, what: str) -> Any:
    if counted.error is not None:
        raise counted.error
    if counted.result is None:
        raise DataError(f"{what} needs at least one example. Received: data without examples.")
    return counted.result
