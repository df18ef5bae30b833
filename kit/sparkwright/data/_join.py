"""Several tables joined by key into examples with named inputs and outputs."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.cluster.jobs import collect, run_job
from sparkwright.data._alignment import Alignment, check_alignment
from sparkwright.data._csv_reader import ENDINGS
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._join_frames import column_types, joined_batches, opened
from sparkwright.data._join_plan import planned
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
    check_on_error(on_error)
    check_alignment(align, length)
    check_partitions(partitions)
    frames = {name: opened(spark, source) for name, source in sources.items()}
    types = {name: column_types(frame) for name, frame in frames.items()}
    sources = {name: each.of_columns(list(types[name]), name) for name, each in sources.items()}
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
    if length is not None:
        lengths = dict.fromkeys(plan.sequences, length)
        reader = replace(reader, lengths=lengths, masked=frozenset(lengths))
    to_find = plan.to_infer() or (plan.sequences and length is None)
    if to_find or "error" in (missing, duplicates):
        surveys = batches.mapPartitions(partial(_survey, reader=reader, on_error=on_error))
        found = collect(spark, surveys, description="look into the join")
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
        raise ConfigurationError("`features` must have an input at least. Received: features={}.")


def _survey(batches: Iterable[bytes], *, reader: JoinReader, on_error: OnError) -> Iterator[Survey]:
    return reader.survey(batches, SkipLog(on_error))


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
