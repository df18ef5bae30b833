"""Join tables by key with Spark's `DataFrame.join`, into examples with named inputs and outputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from sparkwright.cluster.jobs import run_job
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

from ._alignment import Alignment, check_alignment, pad
from ._column_choice import select_columns, sort_values
from ._columnar import is_nested
from ._distributed import DistributedDataSet
from ._join_sources import ClassColumn, OneHot, Source
from .dataset import Array, DataSet
from .frames import kind_of
from .from_spark import arrow_kinds, distinct_texts, in_arrow
from .pieces import check_partitions
from .spark_columns import quoted, selected
from .tables import Columns, Part
from .wording import clipped, listed, session_first

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 256  # converted at once: the longest sequence pads all others


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slot:
    """One array of the examples: columns of a source side by side; a flat one has no last axis."""

    group: str
    name: str
    source: str
    parts: Sequence[Part]
    is_flat: bool


@session_first
def join(
    spark: "SparkSession",
    sources: Mapping[str, Source],
    *,
    features: Mapping[str, Any],
    labels: Mapping[str, Any] | None = None,
    missing: Literal["drop", "error"] = "error",
    align: Alignment = "equal_length",
    length: int | None = None,
    truncate: bool = False,
    partitions: int | None = None,
) -> DistributedDataSet:
    """Join `sources` by key with Spark's `DataFrame.join`, into examples in the order of the keys.

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
        missing: keys missing in a source that is not `optional`: "error" (default) raises when the
            data is read, "drop" leaves them out.
        align: alignment of sequences of different sources. "equal_length" (default) requires
            labels as long as the features, and pads each source at the end. "start" and "end" pad
            all sources to one length, at the end or at the start.
        length: steps of all sequences; default None: the longest length.
        truncate: truncate sequences longer than `length`; default False: raise.
        partitions: number of partitions; default None: Spark's choice.

    Returns:
        The examples; `keys` of them is a DataFrame of the first source's key columns, in their
        order.

    Raises:
        ConfigurationError: if an option is invalid, or keys have different types.
        DataError: if a column does not hold numbers. When the data is read, naming source, key and
            column: if a value is invalid, or a source lacks a key.
    """
    check_choice("missing", missing, ("drop", "error"))
    check_alignment(align, length)
    check_partitions(partitions)
    wrong = [name for name, each in sources.items() if not isinstance(each, Source)]  # pyright: ignore[reportUnnecessaryIsInstance]
    if wrong or not sources:
        raise ConfigurationError(
            f"`sources` must be name -> `records(…)` or `sequences(…)`. Received: {listed(wrong)}."
        )
    if not features:
        raise ConfigurationError("`features` must have at least one input. Received: features={}.")
    frames = {name: _frame(spark, name, source) for name, source in sources.items()}
    slots = [
        _slot(group, name, given, frames)
        for group, wanted in (("features", features), ("labels", labels or {}))
        for name, given in wanted.items()
    ]
    _check_optional(sources, slots)
    joined = _joined(frames, sources, slots)
    required = [f"s{i}" for i, source in enumerate(sources.values()) if not source.optional]
    complete = joined.dropna(subset=required) if required else joined
    places = {name: f"s{i}" for i, name in enumerate(sources) if sources[name].is_sequence}
    lengths = dict.fromkeys(places, (length or 0, True))
    if places and length is None:
        lengths = _lengths(spark, complete, places, align)
    options = {"align": align, "truncate": truncate}
    optional = {name: source.optional for name, source in sources.items()}
    examples = partial(_examples, slots=slots, optional=optional, lengths=lengths, **options)
    # Spark computes the shuffles when the RDD is made.
    ordered = _in_order(complete if missing == "drop" else joined, len(sources), partitions)
    data = run_job(spark, partial(in_arrow, ordered, examples, _ROWS), description="join by key")
    first, source = next(iter(sources.items()))
    names = _chosen(frames[first], source.key, f"sources[{first!r}].key")
    data.keys = ordered.select(*ordered.columns[: len(names)]).toDF(*names)
    alone = {s.name: s.parts[0].classes for s in slots if s.group == "labels" and len(s.parts) == 1}
    data.class_names = {name: found for name, found in alone.items() if isinstance(found, tuple)}
    return data


def _frame(spark: "SparkSession", name: str, source: Source) -> "DataFrame":
    frame = source.where
    if isinstance(frame, str):
        # With `enforceSchema`, Spark would ignore that files have their columns in another order.
        form: dict[str, Any] = {"header": source.header, "sep": source.delimiter, "escape": '"'}
        read = partial(spark.read.csv, frame, inferSchema=True, enforceSchema=False, **form)
        frame = run_job(spark, read, description=f"infer the types of {frame}")
        if not source.header:
            frame = frame.toDF(*(f"column_{index}" for index in range(len(frame.columns))))
    if repeated := {c for c in frame.columns if frame.columns.count(c) > 1}:
        raise ConfigurationError(
            f"the columns of a source must have unique names. Received: {listed(repeated)} "
            f"several times in {name!r}. Rename them with `frame.toDF(…)`."
        )
    return selected(frame, frame.columns)


def _chosen(frame: "DataFrame", choice: Any, option: str) -> tuple[str, ...]:
    if found := select_columns(frame.columns, choice, option=option):
        return found
    raise ConfigurationError(f"`{option}` must have at least one column. Received: {choice!r}.")


def _slot(group: str, name: str, given: Any, frames: Mapping[str, "DataFrame"]) -> _Slot:
    option = f"{group}[{name!r}]"
    pair = cast("tuple[Any, ...]", tuple(given) if isinstance(given, tuple | list) else ())
    if len(pair) != 2 or pair[0] not in frames:
        raise ConfigurationError(
            f"`{option}` must be (source name, columns), of one of the sources "
            f"{listed(frames)}. Received: {given!r}."
        )
    source, choice = pair
    alone = group == "labels" and isinstance(choice, str | int | ClassColumn)
    items: list[Any] = [*choice] if isinstance(choice, list | tuple) and choice else [choice]  # pyright: ignore[reportUnknownArgumentType]
    parts = [part for item in items for part in _parts(item, frames[source], option, alone=alone)]
    is_flat = alone and not (parts[0].hot or parts[0].shape is not None)
    return _Slot(group=group, name=name, source=source, parts=parts, is_flat=is_flat)


def _parts(item: Any, frame: "DataFrame", option: str, *, alone: bool) -> Iterator[Part]:
    import pyarrow as pa

    kinds, shown = arrow_kinds(frame)
    for column in _chosen(frame, item.column if isinstance(item, ClassColumn) else item, option):
        if isinstance(item, ClassColumn):
            classes: Any = item.classes
            if isinstance(classes, str):
                texts = frame.selectExpr(f"CAST({quoted(column)} AS STRING) AS {quoted(column)}")
                classes = sort_values(distinct_texts(texts, [column])[column])
            classes = classes if isinstance(classes, int) else tuple(map(str, classes))
            yield Part(column=column, classes=classes, hot=isinstance(item, OneHot))
        elif kind_of(kinds[column]) not in ("number", "decimal"):
            raise DataError(
                f"`{option}` must be columns of numbers, or of classes in `OneHot` or "
                f"`ClassIndex`. Received: column {column!r} of type {shown[column]}."
            )
        else:
            whole = pa.types.is_integer(kinds[column]) or pa.types.is_boolean(kinds[column])
            shape = () if is_nested(kinds[column]) else None
            yield Part(column=column, is_integer=alone and whole, shape=shape)


def _check_optional(sources: Mapping[str, Source], slots: Sequence[_Slot]) -> None:
    """Raise ConfigurationError if zeros for a missing key would be a label or a class."""
    for slot in slots:
        source = sources[slot.source]
        of_classes = any(part.classes is not None and not part.hot for part in slot.parts)
        if source.optional and slot.group == "labels":
            raise ConfigurationError(
                "labels must be of a source that has every key. Received: "
                f"labels[{slot.name!r}] of {slot.source!r} with optional=True."
            )
        if source.optional and of_classes and not source.is_sequence:
            raise ConfigurationError(
                "columns of optional records may not be `ClassIndex`, as zeros for a missing key "
                f"would be the first class. Received: features[{slot.name!r}]. Use `OneHot`."
            )


def _joined(
    frames: Mapping[str, "DataFrame"], sources: Mapping[str, Source], slots: list[_Slot]
) -> "DataFrame":
    """Return all keys, and a column s{i} of each source: a struct, or the list of its steps."""
    from pyspark.sql import functions as F

    tables: list[DataFrame] = []
    types: dict[str, tuple[str, ...]] = {}
    for name, source in sources.items():
        frame, (kinds, shown) = frames[name], arrow_kinds(frames[name])
        key = _chosen(frame, source.key, f"sources[{name!r}].key")
        received = f"{', '.join(key)} of {name!r}: {', '.join(shown[each] for each in key)}"
        types[received] = tuple(kind_of(kinds[each]).replace("decimal", "number") for each in key)
        keys = [F.col(quoted(each)).alias(f"k{k}") for k, each in enumerate(key)]
        used = dict.fromkeys(p.column for s in slots if s.source == name for p in s.parts) or key
        values = F.struct(*map(quoted, used))
        if source.is_sequence:
            order = _chosen(frame, source.order, f"sources[{name!r}].order")
            if isinstance(source.where, str) and any(
                kind_of(kinds[each]) == "text" for each in order
            ):
                raise DataError(
                    "the `order` of CSV files must be numbers, dates or times. Received: text in "
                    f"{listed(order)} of {name!r}. To sort by text, pass `spark.read.csv(…)`."
                )
            step = F.struct(F.struct(*map(quoted, order)), values.alias("values"))
            values = F.sort_array(F.collect_list(step))["values"]
            tables.append(frame.groupBy(*keys).agg(values.alias(f"s{len(tables)}")))
        else:
            tables.append(frame.select(*keys, values.alias(f"s{len(tables)}")))
    if len(set(types.values())) > 1:
        raise ConfigurationError(
            f"the keys of all sources must have the same types. Received: {'; '.join(types)}. Cast "
            "them first. A CSV column is text if any value is not a number."
        )
    on = tables[0].columns[:-1]
    return reduce(lambda left, right: left.join(right, on, "full"), tables)


def _in_order(joined: "DataFrame", sources: int, partitions: int | None) -> "DataFrame":
    from pyspark.sql import functions as F

    # Without the hash, rows of one key could change places when they are computed again.
    order = [*joined.columns[:-sources], F.xxhash64(*joined.columns[-sources:])]
    if partitions is None:
        return joined.orderBy(*order)
    return joined.repartitionByRange(partitions, *order).sortWithinPartitions(*order)


def _lengths(
    spark: "SparkSession", complete: "DataFrame", places: Mapping[str, str], align: Alignment
) -> dict[str, tuple[int, bool]]:
    """Return source -> steps of its longest sequence, and whether others are shorter."""
    from pyspark.sql import functions as F

    sizes = [F.when(F.isnull(each), 0).otherwise(F.size(each)) for each in places.values()]
    ends = complete.agg(*map(F.min, sizes), *map(F.max, sizes))
    found: Any = run_job(spark, ends.first, description="find the longest sequences")
    if found[0] is None:
        raise DataError(
            "at least one key must be in every source. Received: none. Check each source's `key`."
        )
    lows, highs = found[: len(sizes)], found[len(sizes) :]
    if align != "equal_length":
        lows, highs = [min(lows)] * len(sizes), [max(highs)] * len(sizes)
    return {n: (high, low < high) for n, low, high in zip(places, lows, highs, strict=True)}


def _examples(
    rows: Any,
    *,
    slots: Sequence[_Slot],
    optional: Mapping[str, bool],
    lengths: Mapping[str, tuple[int, bool]],
    align: Alignment,
    truncate: bool,
) -> DataSet:
    """Convert an Arrow batch of joined rows, on executors."""
    import pyarrow as pa

    def at(row: Any) -> str:
        keys = (str(column[int(row)]) for column in rows.columns[: -len(optional)])
        return f"key {', '.join(map(clipped, keys))}"

    values = dict(zip(optional, rows.columns[-len(optional) :], strict=True))
    steps = {name: values[name].value_lengths().fill_null(0).to_numpy() for name in lengths}
    labels, features = (
        {slot.source for slot in slots if slot.group == group and slot.source in steps}
        for group in ("labels", "features")
    )
    checks = [
        (
            column.is_null().to_numpy(zero_copy_only=False),
            f"every key must be in every source. Received: none in {name!r}. Drop such keys with "
            '`missing="drop"`, or keep them with `optional=True` of the source.',
        )
        for name, column in values.items()
        if not optional[name]
    ]
    checks += [
        (
            steps[a] != steps[b],
            "labels and features of a sequence must have as many steps. Received: other numbers in "
            f'{a!r} and {b!r}. Pad them with `align="start"` or "end".',
        )
        for a in (labels - features if align == "equal_length" else ())
        for b in features
    ]
    checks += [
        (
            steps[name] > length,
            f"sequences must have at most {length} steps (`length`). Received: more in {name!r}. "
            "Use a larger `length`, or `truncate=True`.",
        )
        for name, (length, _) in ({} if truncate else lengths).items()
    ]
    for wrong, rule in checks:
        if wrong.any():
            raise DataError(f"{at(wrong.argmax())}: {rule}")
    arrays: dict[str, Array] = {}
    for slot in slots:
        column = values[slot.source]
        owner = np.flatnonzero(column.is_valid())
        if slot.source in steps:
            column, owner = column.flatten(), np.arange(len(rows)).repeat(steps[slot.source])
        else:
            column = column.drop_null()
        table = Columns(pa.RecordBatch.from_struct_array(column))
        made = table.side_by_side([_sized(part, column) for part in slot.parts])
        for fault in table.faults[:1]:
            row = int(fault.rows[0])
            raise DataError(f"{at(owner[row])}: source {slot.source!r}: {fault.message(row)}")
        if slot.source in steps:
            length, is_masked = lengths[slot.source]
            made, mask = pad(made, steps[slot.source], length, align=align)
            if is_masked:
                arrays[f"{slot.group}_masks/{slot.name}"] = mask
        elif len(owner) < len(rows):
            found, made = made, np.zeros((len(rows), *made.shape[1:]), made.dtype)
            made[owner] = found
        arrays[f"{slot.group}/{slot.name}"] = made[..., 0] if slot.is_flat else made
    return DataSet.from_columns(arrays)


def _sized(part: Part, column: Any) -> Part:
    """Set the shape of a part of arrays to that of the first one."""
    if part.shape is None:
        return part
    lengths = column.field(part.column).value_lengths().drop_null()
    return replace(part, shape=(lengths[0].as_py() if len(lengths) else 1,))
