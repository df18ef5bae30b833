"""Survey the partitions of data and measure repartitions, on Spark."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkwright.cluster.jobs import collect
from sparkwright.data import DistributedDataSet, from_bytes, row_count
from sparkwright.data.shuffling import count_examples
from sparkwright.errors import DataError
from sparkwright.options import check_count
from sparkwright.partitions import PartitionSurvey, RepartitionPlan
from sparkwright.partitions.execute import repartition
from sparkwright.partitions.survey import LabelSample

# Maximum number of sampled rows sent to the driver by all partitions together.
_MOST_ROWS = 400_000
_FEWEST_ROWS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRepartition:
    """The measured cost of a repartition.

    Attributes:
        plan: the executed plan.
        rows: rows of each worker afterwards.
        read_s: seconds of a pass over the data without the repartition.
        repartition_s: seconds of a pass over the data with the repartition.
    """

    plan: RepartitionPlan
    rows: tuple[int, ...]
    read_s: float
    repartition_s: float

    @property
    def move_s(self) -> float:
        """Approximate seconds of the repartition alone; never below 0."""
        return max(0.0, self.repartition_s - self.read_s)


def survey_partitions(
    data: DistributedDataSet, *, sample_rows: int = 1000, label: str | None = None, seed: int = 0
) -> PartitionSurvey:
    """Count rows and bytes of each partition, and sample labels; runs one Spark job.

    Rows are counted from headers; only labels of sampled rows are decoded. Source files are read
    once.

    Args:
        data: the examples.
        sample_rows: rows sampled at random in each partition for their labels; default 1000, fewer
            with more than 400 partitions; 0: none. Smaller partitions are read completely.
        label: the output whose labels are sampled; default None: the only one.
        seed: seed of the sample; default 0.

    Raises:
        ConfigurationError: if `sample_rows` is negative.
    """
    check_count("sample_rows", sample_rows, minimum=0)
    partitions = max(1, data.rdd.getNumPartitions())
    most = min(sample_rows, max(_FEWEST_ROWS, _MOST_ROWS // partitions))
    look = partial(_survey_partition, output=label, most_rows=most, seed=seed)
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
    """Execute a plan, count the rows and measure the time; runs two Spark jobs.

    The result is discarded: a training run repartitions again.

    Args:
        data: the examples of the plan.
        plan: from `plan_repartition`.

    Raises:
        DataError: if the data does not match the plan.
    """

    def timed(rdd: Any, description: str) -> tuple[list[int], float]:
        start = time.perf_counter()
        found = count_examples(data.spark, rdd, description=description)
        return found, time.perf_counter() - start

    counts, read_s = timed(data.rdd, "read the data")
    if tuple(counts) != plan.source_counts:
        raise DataError(
            "the plan does not match the data. Received: data with other row counts per partition "
            "than in the plan. Count again and make a new plan."
        )
    moved, repartition_s = timed(repartition(data.rdd, plan), "try the repartition")
    return MeasuredRepartition(
        plan=plan, rows=tuple(moved), read_s=read_s, repartition_s=repartition_s
    )


def _survey_partition(
    partition: int, chunks: Iterable[bytes], *, output: str | None, most_rows: int, seed: int
) -> Iterator[tuple[int, int, int, LabelSample | str]]:
    """Yield partition, rows, bytes, and labels or the reason for their absence; in a task."""
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
