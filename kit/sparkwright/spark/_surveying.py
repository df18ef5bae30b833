"""Looks at how data lies in partitions, and tries repartitions out, on Spark."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkwright.cluster.jobs import collect
from sparkwright.data import DistributedDataSet, from_bytes, row_count
from sparkwright.data.shuffling import counts_in_order, indexed_counts
from sparkwright.errors import DataError
from sparkwright.options import check_count
from sparkwright.partitions import PartitionSurvey, RepartitionPlan
from sparkwright.partitions.execute import repartition
from sparkwright.partitions.survey import LabelSample

# All partitions together send no more sampled rows to the driver.
_MOST_ROWS = 400_000
_FEWEST_ROWS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRepartition:
    """What a repartition took when it was done.

    Attributes:
        plan: what was done.
        rows: of each worker, counted afterwards.
        read_s: seconds of a pass over the data as it lies.
        repartition_s: seconds of a pass over the data with the repartition.
    """

    plan: RepartitionPlan
    rows: tuple[int, ...]
    read_s: float
    repartition_s: float

    @property
    def move_s(self) -> float:
        """Seconds that the repartition itself took, about; never below 0."""
        return max(0.0, self.repartition_s - self.read_s)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "name": "measured_repartition",
            "plan": self.plan.to_dict(),
            "rows": list(self.rows),
            "read_s": self.read_s,
            "repartition_s": self.repartition_s,
        }


def survey_partitions(
    data: DistributedDataSet, *, sample_rows: int = 1000, label: str | None = None, seed: int = 0
) -> PartitionSurvey:
    """Count rows and bytes of each partition, and look at labels of some rows; one Spark job.

    Rows are counted from headers; only labels of sampled rows are decoded. A source that reads
    files reads them once.

    Args:
        data: the examples.
        sample_rows: rows of each partition whose labels are looked at, drawn by chance; default
            1000; fewer of each if there are more than 400 partitions; 0: none. A partition with no
            more rows than this is looked at completely.
        label: the output whose labels count; default None: the only one.
        seed: of the sample; default 0.

    Raises:
        ConfigurationError: if `sample_rows` is negative.
    """
    check_count("sample_rows", sample_rows, minimum=0)
    partitions = max(1, data.rdd.getNumPartitions())
    most = min(sample_rows, max(_FEWEST_ROWS, _MOST_ROWS // partitions))
    look = partial(_look, output=label, most_rows=most, seed=seed)
    found = collect(
        data.spark, data.rdd.mapPartitionsWithIndex(look), description="survey partitions"
    )
    found.sort(key=lambda each: each[0])
    rows = [count for _, count, _, _ in found]
    sizes = [size for _, _, size, _ in found]
    samples: list[LabelSample] = []
    why = "" if sample_rows else "They were not asked for."
    for _, _, _, sample in found:
        if isinstance(sample, LabelSample):
            samples.append(sample)
        else:
            why = why or str(sample)
    if why:
        return PartitionSurvey(rows=tuple(rows), size_bytes=tuple(sizes), without_labels=why)
    names = data.class_names
    of_output = names.get(label) if label else next(iter(names.values()), None)
    return PartitionSurvey.of_samples(
        rows, samples, size_bytes=sizes, class_names=of_output, output=label or ""
    )


def measure_repartition(data: DistributedDataSet, plan: RepartitionPlan) -> MeasuredRepartition:
    """Do what a plan says, count the outcome, and take the time; two Spark jobs.

    Nothing is kept: a training run repartitions for itself.

    Args:
        data: the examples that the plan was made for.
        plan: from `plan_repartition`.

    Raises:
        DataError: if the data is not what the plan was made for.
    """

    def timed(rdd: Any, description: str) -> tuple[list[int], float]:
        start = time.perf_counter()
        found = collect(data.spark, indexed_counts(rdd), description=description)
        return counts_in_order(found), time.perf_counter() - start

    counts, read_s = timed(data.rdd, "read the data")
    if tuple(counts) != plan.source_counts:
        raise DataError(
            "a plan fits only the data it was made for. Received: data whose partitions hold other "
            "numbers of rows than the plan says. Count again and make a new plan."
        )
    moved, repartition_s = timed(repartition(data.rdd, plan), "try the repartition")
    return MeasuredRepartition(
        plan=plan, rows=tuple(moved), read_s=read_s, repartition_s=repartition_s
    )


def _look(
    partition: int, chunks: Iterable[bytes], *, output: str | None, most_rows: int, seed: int
) -> Iterator[tuple[int, int, int, LabelSample | str]]:
    """Partition, rows, bytes, and labels or why there are none (on an executor)."""
    rows = size = 0
    sample: LabelSample | str = LabelSample.empty(most_rows)
    for chunk in chunks:
        if isinstance(sample, LabelSample) and most_rows:
            try:
                sample = sample.extended(
                    from_bytes(chunk), output=output, start=rows, partition=partition, seed=seed
                )
            except DataError as error:
                sample = str(error)
        rows += row_count(chunk)
        size += len(chunk)
    yield partition, rows, size, sample
