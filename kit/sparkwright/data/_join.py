"""Join several tables by key into examples with named inputs and outputs."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.cluster.jobs import collect, run_job
from sparkwright.data._alignment import Alignment, check_alignment
from sparkwright.data._csv_reader import ENDINGS
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._join_frames import column_types, joined_batches, source_frame
from sparkwright.data._join_plan import make_plan
from sparkwright.data._join_reader import JoinReader
from sparkwright.data._join_sources import Source
from sparkwright.data._survey import Survey
from sparkwright.data._table_source import files_of
from sparkwright.data.pieces import OnError, SkipLog, check_on_error, check_partitions, read_groups
from sparkwright.data.wording import session_first, shortened
from sparkwright.errors import ConfigurationError
from sparkwright.options import check_choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@session_first
def join(
    spark: "SparkSession",
    sources: Mapping[str, Source],
    *,
    features: Mapping[str, Any],
    labels: Mapping[str, Any] | None = None,
    missing: Literal["drop", "error"] = "error",
    duplicates: Literal["error", "first", "last"] = "error",
    align: Alignment = "equal_length",
    length: int | None = None,
    truncate: bool = False,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Join `sources` by key into one example per key, in the order of the keys.

    Features are float32: (n, columns) for records, (n, time, columns) for sequences. A label given
    as a single column is (n,) or (n, time); it is int32 for integer columns, else float32. A list
    of columns adds a last axis and is float32. `OneHot` and `ClassIndex` encode columns of classes.
    Sequences of different lengths are padded with zeros and get masks.

    Args:
        spark: the session.
        sources: name -> `records(…)` or `sequences(…)`.
        features: input name -> (source name, columns). Columns are a name, an index, a `slice` or
            `range` of indices, `OneHot(…)`, `ClassIndex(…)`, or a list of these.
        labels: output name -> (source name, columns), as `features`; default none.
        missing: keys missing in a source: "error" (default) raises, "drop" drops and counts them.
        duplicates: duplicate keys in a source of records: "error" (default) raises; "first" or
            "last" keeps that row, in reading order.
        align: alignment of sequences of different sources. "equal_length" (default) requires
            labels as long as the features, and pads each source at the end. "start" and "end" pad
            all sources to one length, at the end or at the start.
        length: steps of all sequences; default None: the longest length.
        truncate: truncate sequences longer than `length`; default False: raise.
        on_error: "raise" (default), or "skip": skip and count keys with invalid values.
        partitions: number of partitions; default None: Spark's choice.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: naming source, key and column, if a value is invalid; listing the first keys
            that are missing or duplicate.
    """
    _check(sources, features, missing, duplicates)
    check_on_error(on_error)
    check_alignment(align, length)
    check_partitions(partitions)
    frames = {name: source_frame(spark, source) for name, source in sources.items()}
    types = {name: column_types(frame) for name, frame in frames.items()}
    sources = {name: each.of_columns(list(types[name]), name) for name, each in sources.items()}
    plan = make_plan(sources, types, features, labels or {})
    reader = JoinReader(
        plan=plan, missing=missing, duplicates=duplicates, align=align, truncate=truncate
    )
    # The only shuffle: later passes read the sorted data from the executors.
    batches = run_job(
        spark,
        lambda: joined_batches(
            frames, sources, plan, last=duplicates == "last", partitions=partitions
        ),
        description="join by key",
    )
    if length is not None:
        lengths = dict.fromkeys(plan.sequences, length)
        reader = replace(reader, lengths=lengths, masked=frozenset(lengths))
    to_find = plan.to_infer() or (plan.sequences and length is None)
    if to_find or "error" in (missing, duplicates):
        surveys = batches.mapPartitions(partial(_survey, reader=reader, on_error=on_error))
        found = collect(spark, surveys, description="survey the join")
        reader = reader.completed(sum(found, Survey()))
    return read_groups(
        spark,
        batches.map(lambda batch: [batch]),
        reader,
        on_error=on_error,
        fingerprint=_fingerprint(sources, reader, on_error),
        class_names=reader.plan.class_names(),
    )


def _check(
    sources: Mapping[str, Any], features: Mapping[str, Any], missing: Any, duplicates: Any
) -> None:
    check_choice("missing", missing, ("drop", "error"))
    check_choice("duplicates", duplicates, ("error", "first", "last"))
    wrong = [name for name, source in sources.items() if not isinstance(source, Source)]
    if wrong or not sources:
        raise ConfigurationError(
            "`sources` must be name -> `records(…)` or `sequences(…)`. "
            f"Received: {shortened(wrong) or 'none'}."
        )
    if not features:
        raise ConfigurationError("`features` must have at least one input. Received: features={}.")


def _survey(batches: Iterable[bytes], *, reader: JoinReader, on_error: OnError) -> Iterator[Survey]:
    return reader.survey(batches, SkipLog(on_error))


def _fingerprint(sources: Mapping[str, Source], reader: JoinReader, on_error: str) -> str | None:
    """Return the fingerprint; None unless all sources are files."""
    files: list[Any] = []
    for name, source in sources.items():
        if not isinstance(source.where, str):
            return None
        listed = files_of(source.where, ENDINGS)
        files.append((name, [(f.url, f.size_bytes, f.version) for f in listed]))
        files.append((source.key, source.order, source.form))
    return hashlib.sha256(repr((files, reader, on_error)).encode()).hexdigest()
