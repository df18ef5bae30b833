"""Several tables joined by key into examples with named inputs and outputs."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.cluster.jobs import collect, run_job
from sparkwright.data._alignment import Alignment, LengthRange, check_alignment
from sparkwright.data._arrow import errors_as_chunks, joined_chunks, to_bytes
from sparkwright.data._classes import MOST_CLASSES, found_text
from sparkwright.data._column_choice import in_order, of_unnamed
from sparkwright.data._csv_reader import ENDINGS
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._join_frames import column_types, joined_batches, opened
from sparkwright.data._join_plan import Plan, planned
from sparkwright.data._join_reader import JoinReader
from sparkwright.data._join_sources import Source
from sparkwright.data._join_survey import JoinSurvey, lacking_text, repeated_text
from sparkwright.data._pieces import (
    OnError,
    SkipLog,
    SkipTracker,
    check_on_error,
    check_partitions,
)
from sparkwright.data._table_source import files_of
from sparkwright.data._wording import session_first, shortened
from sparkwright.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from pyspark import RDD
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
    """One example for each key, of all `sources`, in the order of the keys.

    Features are float32: (n, columns) of records, (n, time, columns) of sequences. A label that is
    one column by itself is (n,), or (n, time); float32, or int32 where the column holds integers. A
    list of columns has an axis more and is float32. `OneHot` and `ClassIndex` say how columns of
    classes are meant. Sequences of different length are filled up with zeros, with masks.

    Args:
        spark: the session.
        sources: name -> `records(…)` or `sequences(…)`.
        features: input name -> (source name, columns): a name, an index, a `slice` or `range` of
            indices, `OneHot(…)`, `ClassIndex(…)`, or a list of these.
        labels: output name -> likewise; default none.
        missing: keys that a source lacks: "error" (default), or "drop": left out and counted.
        duplicates: a source of records that has a key more than once: "error" (default), or which
            row counts, "first" or "last" in the order of reading.
        align: sequences of different sources: "equal_length" (default) refuses labels with other
            lengths than the features, and fills up each source at the end; "start" and "end" bring
            all sources to one length, padding at the end or at the start.
        length: steps of all sequences; default None: the longest found.
        truncate: cut what is longer than `length`; default False: an error.
        on_error: "raise" (default), or "skip": leave keys with bad values out and count them.
        partitions: how many; default None: Spark's choice.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: naming source, key and column; with `missing="error"` the first keys that a
            source lacks.
    """
    _check(sources, features, missing, duplicates)
    sources = {name: _named(source) for name, source in sources.items()}
    check_on_error(on_error)
    check_alignment(align, length)
    check_partitions(partitions)
    frames = {name: opened(spark, name, source) for name, source in sources.items()}
    types = {name: column_types(frame) for name, frame in frames.items()}
    plan = planned(sources, types, features, labels or {})
    reader = JoinReader(
        plan=plan, missing=missing, duplicates=duplicates, align=align, truncate=truncate
    )
    # Spark shuffles here, once: every later pass reads what lies sorted on the executors.
    batches = run_job(
        spark,
        lambda: joined_batches(
            frames, sources, plan, last=duplicates == "last", partitions=partitions
        ),
        description="join by key",
    )
    sequential = [i for i, is_sequence in enumerate(plan.sequential) if is_sequence]
    known = length is not None or not sequential
    if length is not None:
        reader = replace(reader, lengths=dict.fromkeys(sequential, length))
    if not known or "error" in (missing, duplicates) or plan.to_infer():
        reader = _surveyed(spark, batches, reader, length, on_error)
    else:
        reader = replace(reader, masked=frozenset(sequential))
    tracker = SkipTracker(spark.sparkContext)
    rdd = batches.mapPartitionsWithIndex(
        partial(_read_partition, reader=reader, on_error=on_error, done=tracker.done)
    )
    tracker.rdd = rdd
    return DistributedDataSet(
        spark,
        rdd,
        fingerprint=_fingerprint(sources, reader, on_error),
        class_names=reader.plan.class_names(),
        skip_tracker=tracker,
    )


def _named(source: Source) -> Source:
    """The source with today's names of columns without a header."""
    if not isinstance(source.where, str) or source.form.header:
        return source
    key, order = (tuple(map(of_unnamed, names)) for names in (source.key, source.order))
    return replace(source, key=key, order=order)


def _check(
    sources: Mapping[str, Any], features: Mapping[str, Any], missing: Any, duplicates: Any
) -> None:
    for option, value, allowed in (
        ("missing", missing, ("drop", "error")),
        ("duplicates", duplicates, ("error", "first", "last")),
    ):
        if value not in allowed:
            raise ConfigurationError(
                f"`{option}` must be one of {', '.join(map(repr, allowed))}. "
                f"Received: {option}={value!r}."
            )
    wrong = [name for name, source in sources.items() if not isinstance(source, Source)]
    if wrong or not sources:
        raise ConfigurationError(
            "`sources` must be name -> `records(…)` or `sequences(…)`. "
            f"Received: {shortened(wrong) or 'none'}."
        )
    if not features:
        raise ConfigurationError("`features` must have an input at least. Received: features={}.")


def _surveyed(
    spark: "SparkSession",
    batches: "RDD[bytes]",
    reader: JoinReader,
    length: int | None,
    on_error: OnError,
) -> JoinReader:
    surveys = batches.mapPartitions(partial(reader.survey, on_error=on_error))
    found = sum(collect(spark, surveys, description="look into the join"), JoinSurvey())
    if reader.missing == "error" and found.lacking:
        raise DataError(lacking_text(found.lacking, found.first_lacking))
    if reader.duplicates == "error" and found.repeated:
        raise DataError(repeated_text(found.repeated, found.first_repeated))
    if not found.keys:
        raise DataError(
            "there must be a key that is in every source, with rows that can be used. "
            "Received: none."
        )
    return replace(
        reader,
        plan=_with_classes(reader.plan, found.classes),
        **_with_lengths(reader, found.lengths, length),
    )


def _with_classes(plan: Plan, found: Mapping[tuple[int, int], frozenset[str]]) -> Plan:
    for (i, j), values in found.items():
        if not 2 <= len(values) <= MOST_CLASSES:
            slot = plan.slots[i]
            column = plan.fields[slot.source][slot.parts[j].field].column
            raise DataError(
                f"a column must have from 2 to {MOST_CLASSES:,} different values to be classes. "
                f"Received: {found_text(values)}, in column {column!r} of source "
                f"{plan.sources[slot.source]!r}."
            )
    return plan.with_classes({key: in_order(set(values)) for key, values in found.items()})


def _with_lengths(
    reader: JoinReader, found: Mapping[int, LengthRange], length: int | None
) -> dict[str, Any]:
    sequential = [i for i, is_sequence in enumerate(reader.plan.sequential) if is_sequence]
    ranges = {i: found.get(i, LengthRange()) for i in sequential}
    if length is not None:
        return {"lengths": dict.fromkeys(sequential, length), "masked": frozenset(sequential)}
    if reader.align == "equal_length":
        masked = frozenset(i for i, one in ranges.items() if not one.is_uniform)
        return {"lengths": {i: one.longest for i, one in ranges.items()}, "masked": masked}
    whole = sum(ranges.values(), LengthRange())
    masked = frozenset[int]() if whole.is_uniform else frozenset(sequential)
    return {"lengths": dict.fromkeys(sequential, whole.longest), "masked": masked}


@errors_as_chunks
def _read_partition(
    index: int, batches: Iterable[bytes], *, reader: JoinReader, on_error: OnError, done: Any
) -> Iterator[bytes]:
    log = SkipLog(on_error)
    yield from map(to_bytes, joined_chunks(reader(batches, log)))
    done.add({index: log.skipped})


def _fingerprint(sources: Mapping[str, Source], reader: JoinReader, on_error: str) -> str | None:
    """Known where all sources are files."""
    files: list[Any] = []
    for name, source in sources.items():
        if not isinstance(source.where, str):
            return None
        listed = files_of(source.where, ENDINGS)
        files.append((name, [(f.url, f.size_bytes, f.version) for f in listed]))
        files.append((source.key, source.order, source.form))
    return hashlib.sha256(repr((files, reader, on_error)).encode()).hexdigest()
