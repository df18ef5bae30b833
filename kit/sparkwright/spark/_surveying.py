"""Survey the partitions of data, on Spark."""

from collections.abc import Iterable, Iterator
from functools import partial

from sparkwright.cluster.jobs import collect
from sparkwright.data import DistributedDataSet, from_bytes, row_count
from sparkwright.errors import DataError
from sparkwright.options import check_count
from sparkwright.partitions import PartitionSurvey
from sparkwright.partitions.survey import LabelSample

# Maximum number of sampled rows sent to the driver by all partitions together.
_MOST_ROWS = 400_000
_FEWEST_ROWS = 16


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
