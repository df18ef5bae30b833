"""Sources grouped by key and joined by Spark SQL, in the order of the keys, as Arrow batches."""

import pickle
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.jobs import collect
from sparkwright.data._csv_format import CsvFormat, line_count
from sparkwright.data._csv_parse import inspect, parse, to_number
from sparkwright.data._csv_reader import CsvPiece, CsvReader, CsvSource
from sparkwright.data._join_plan import Plan
from sparkwright.data._join_sources import Source
from sparkwright.data._pieces import SkipLog
from sparkwright.data._table_source import piece_bytes
from sparkwright.data._wording import shortened
from sparkwright.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import Column, DataFrame, SparkSession

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Types of columns of CSV files; the first that holds all values is taken, else text.
_TYPES = ("bigint", "double", "boolean", "date", "timestamp")
_ARROW_TYPES = {
    "bigint": "int64", "boolean": "bool", "date": "date32", "timestamp": "timestamp[us]"
}  # fmt: skip
_FAULT, _FILE = "sparkwright_fault", "sparkwright_file"


def opened(spark: "SparkSession", name: str, source: Source) -> "DataFrame":
    """The source's DataFrame.

    Raises:
        ConfigurationError: if a column of its key or order is not there.
        DataError: if CSV files cannot be read.
    """
    frame = source.where
    if isinstance(source.where, str):
        frame = _csv(spark, source.where, source.form)
    for option, names in (("key", source.key), ("order", source.order)):
        missing = sorted(set(names) - set(frame.columns))
        if missing:
            raise ConfigurationError(
                f"`{option}` of source {name!r} must name its columns, "
                f"{shortened(column_types(frame))}. Received: {shortened(missing)}."
            )
    return frame


def _csv(spark: "SparkSession", url: str, form: CsvFormat) -> "DataFrame":
    """CSV files with columns of the narrowest types that hold all of their values."""
    from pyspark.sql import functions as F

    try:
        source = CsvSource(url, form)
    except OSError as error:
        raise DataError(f"CSV files must be readable. Received: {error}.") from None
    parallelism = spark.sparkContext.defaultParallelism
    pieces = source.pieces(piece_bytes(source.files, parallelism))
    reader = source.reader(source.columns, source.columns, is_exact=True)
    found = collect(
        spark,
        spark.sparkContext.parallelize(pieces, min(len(pieces), parallelism)).map(
            partial(kinds_of, reader=reader)
        ),
        description=f"look into {url}",
    )
    names = [*source.columns, _FAULT, _FILE]
    read = spark.createDataFrame(
        spark.sparkContext.parallelize(pieces, min(len(pieces), parallelism)).map(
            lambda piece: (pickle.dumps(piece),)
        ),
        "piece binary",
    ).mapInArrow(
        partial(_rows_of_pieces, reader=reader),
        ", ".join(f"{_quoted(name)} string" for name in names),
    )
    return read.select(
        *(F.col(_quoted(n)).try_cast(narrowest([k[n] for k in found])).alias(n) for n in names)
    )


def kinds_of(piece: Any, *, reader: CsvReader) -> dict[str, frozenset[str] | None]:
    """Column -> the types that all of its values have; None without values."""
    found: dict[str, frozenset[str] | None] = dict.fromkeys([_FAULT, _FILE], frozenset())
    found |= dict.fromkeys(reader.columns.names)
    for table in tables_of(piece, reader):
        table = table.filter(table.column(_FAULT).is_null())
        for name in reader.columns.names:
            column = table.column(name).drop_null()
            if found[name] == frozenset() or not len(column):
                continue
            kinds = _TYPES if found[name] is None else found[name] or ()
            found[name] = frozenset(kind for kind in kinds if _fits(column, kind))
    return found


def _fits(column: Any, kind: str) -> bool:
    import pyarrow as pa

    try:
        if kind == "double":
            to_number(column)
        else:
            column.cast(_ARROW_TYPES[kind])
    except pa.ArrowInvalid:
        return False
    return True


def narrowest(found: list[frozenset[str] | None]) -> str:
    """The type of a column, of the types that its pieces have."""
    known = [kinds for kinds in found if kinds is not None]
    common = frozenset.intersection(*known) if known else frozenset[str]()
    return next((kind for kind in _TYPES if kind in common), "string")


def _rows_of_pieces(batches: Iterator[Any], *, reader: CsvReader) -> Iterator[Any]:
    for batch in batches:
        for content in batch.column(0).to_pylist():
            for table in tables_of(pickle.loads(content), reader):
                yield from table.to_batches()


class _Notes(SkipLog):
    """Collects skipped records; the join reports them."""

    def __init__(self) -> None:
        super().__init__("skip")
        self.found: list[str] = []

    def skip(self, reason: str, message: str, *, count: int = 1) -> None:
        del count
        self.found.append(f"{reason}: {message}")


def tables_of(piece: CsvPiece, reader: CsvReader) -> Iterator[Any]:
    """Texts of a piece; where something is wrong, `_FAULT` says it beside what can be read."""
    import pyarrow as pa

    names = reader.columns.names
    schema = pa.schema([(name, pa.string()) for name in (*names, _FAULT, _FILE)])
    notes = _Notes()
    for content, columns, place in reader.blocks(piece, notes):
        table = parse(content, reader.form, columns)
        broken: list[list[str | None]] = []
        if table is None:
            found = inspect(content, reader.form, columns)
            table = found.table
            for fault in found.faults:
                for record in fault.rows.tolist():
                    text = found.text(record)
                    line = place(line_count(content[: found.starts[record]]))
                    # The key, which may be there, tells whose values are lost.
                    fields = reader.form.fields(text.decode(errors="backslashreplace"))
                    row = [*fields, *[None] * len(names)][: len(names)]
                    broken.append([*row, f"{fault.reason}: {line}: {fault.message(record)}"])
        rows = int(table.num_rows)
        whole = [*(table.column(name).cast(pa.string()) for name in names), pa.nulls(rows)]
        yield pa.table([*whole, pa.repeat(piece.url, rows)], [*names, _FAULT, _FILE]).cast(schema)
        if broken:
            yield pa.table(
                [*map(list, zip(*broken, strict=True)), [piece.url] * len(broken)], schema=schema
            )
    if notes.found:
        count = len(notes.found)
        lost = [pa.nulls(count, pa.string()) for _ in names]
        yield pa.table([*lost, notes.found, [piece.url] * count], schema=schema)


def column_types(frame: "DataFrame") -> dict[str, str]:
    """Column -> Spark's name of its type, of the columns that are the user's."""
    return {name: kind for name, kind in frame.dtypes if name not in (_FAULT, _FILE)}


def key_types(frames: Mapping[str, "DataFrame"], sources: Mapping[str, Source]) -> list[str]:
    """Spark's types of the key's columns, integers of any width being one.

    Raises:
        ConfigurationError: if the sources differ.
    """
    found: dict[str, list[str]] = {}
    for name, source in sources.items():
        types = dict(frames[name].dtypes)
        found[name] = ["bigint" if types[k] in _INTEGERS else types[k] for k in source.key]
    first = next(iter(found.values()))
    if any(types != first for types in found.values()):
        raise ConfigurationError(
            "the keys of all sources must be of the same types. Received: "
            + "; ".join(
                f"{', '.join(sources[name].key)} of {name!r}: {', '.join(types)}"
                for name, types in found.items()
            )
            + ". Cast them first. A key of CSV files is text if one of its values is no number."
        )
    return first


def joined_batches(
    frames: Mapping[str, "DataFrame"],
    sources: Mapping[str, Source],
    plan: Plan,
    *,
    last: bool,
    partitions: int | None,
) -> "RDD[bytes]":
    """RDD of Arrow IPC streams: a row for each key that any source has, sorted by key.

    Columns are `k0`, … of the key. Of source i, `n{i}`: its rows, null where it lacks the key;
    `b{i}`: how many of these have no order; `t{i}`: an order that is no number though it must be;
    `x{i}`, `f{i}`: a line that is no CSV, and how many there are; and `c{i}_{j}`, field j: a value,
    or a list of steps. Rows without a key are counted, their fields are not kept.
    """
    from pyspark.sql import functions as F

    types = key_types(frames, sources)
    keys = [f"k{k}" for k in range(len(types))]
    # One shuffle of all sources together: joins of grouped sources would be one more for each.
    rows = reduce(
        lambda above, below: above.unionByName(below, allowMissingColumns=True),
        (
            _rows(frames[name], sources[name], plan, index, types)
            for index, name in enumerate(plan.sources)
        ),
    )
    whole = rows.groupBy(*keys).agg(
        *(c for i in range(len(plan.sources)) for c in _grouped(plan, i, last=last))
    )
    whole = whole.select(*keys, *(c for i in range(len(plan.sources)) for c in _picked(plan, i)))
    order = [F.col(key) for key in keys]
    if partitions is None:
        whole = whole.orderBy(*order)
    else:
        whole = whole.repartitionByRange(partitions, *order).sortWithinPartitions(*order)
    return whole.mapInArrow(_streams, "batch binary").rdd.map(lambda row: bytes(row.batch))


def _rows(
    frame: "DataFrame", source: Source, plan: Plan, index: int, types: list[str]
) -> "DataFrame":
    """The source's rows: key, a struct `s{i}` that sorts as its steps do, and what is wrong."""
    from pyspark.sql import functions as F

    kinds = dict(frame.dtypes)
    keys = [
        F.col(_quoted(c)).cast(t).alias(f"k{k}")
        for k, (c, t) in enumerate(zip(source.key, types, strict=True))
    ]
    values: list[Column] = []
    for j, field in enumerate(plan.fields[index]):
        value = F.col(_quoted(field.column))
        if field.spark_type == "string" and kinds[field.column] in ("float", "double"):
            value = F.when(~F.isnan(value), value)  # as text, NaN would be a class
        values.append(value.cast(field.spark_type).alias(f"c{j}"))
    number = F.monotonically_increasing_id().alias("row")
    order, unordered, wrong = _order(kinds, source)
    named = [column.alias(f"o{i}") for i, column in enumerate(order)]
    broken = F.col(_FAULT) if _FAULT in kinds else F.lit(None).cast("string")
    keyed = reduce(lambda a, b: a & b, (F.col(_quoted(name)).isNotNull() for name in source.key))
    return frame.select(
        *keys,
        F.lit(1).alias(f"n{index}"),
        # All rows without a key would come together in one row of the result.
        F.when(keyed, F.struct(*named, number, *values)).alias(f"s{index}"),
        unordered.cast("int").alias(f"b{index}"),
        wrong.alias(f"t{index}"),
        broken.alias(f"x{index}"),
    )


def _order(kinds: Mapping[str, str], source: Source) -> "tuple[list[Column], Column, Column]":
    """Columns that sort steps; whether one has no value; a text that should have been a number.

    A column of a CSV file that holds one text is text for Spark: as such 10 would come before 2.
    """
    from pyspark.sql import functions as F

    order: list[Column] = []
    lacking: Column = F.lit(False)
    wrong: Column = F.lit(None).cast("string")
    for name in source.order:
        column = F.col(_quoted(name))
        lacking = lacking | column.isNull()
        if kinds[name] in ("float", "double"):
            lacking = lacking | F.isnan(column)
        if not isinstance(source.where, str) or kinds[name] != "string":
            order.append(column)
            continue
        number = column.try_cast("double")
        bad = column.isNotNull() & (number.isNull() | F.isnan(number))
        text = F.concat(F.substring(column, 1, 60), F.lit(f" in column {name!r} of "), F.col(_FILE))
        wrong = F.coalesce(wrong, F.when(bad, text))
        # Integers beyond 2**53 may be the same as float64.
        order += [number, F.coalesce(column.try_cast("bigint"), number.try_cast("bigint"))]
    return order, lacking, wrong


def _grouped(plan: Plan, index: int, *, last: bool) -> "list[Column]":
    """What is kept of all rows of a key."""
    from pyspark.sql import functions as F

    row = F.col(f"s{index}")
    if plan.sequential[index]:
        kept = F.sort_array(F.collect_list(row))
    else:
        kept = (F.max_by if last else F.min_by)(row, row["row"])
    return [
        F.count(f"n{index}").alias(f"n{index}"),
        F.sum(f"b{index}").alias(f"b{index}"),
        F.min(f"t{index}").alias(f"t{index}"),
        F.min(f"x{index}").alias(f"x{index}"),
        F.count(f"x{index}").alias(f"f{index}"),
        kept.alias(f"s{index}"),
    ]


def _picked(plan: Plan, index: int) -> "list[Column]":
    """The columns of a source, as `joined_batches` names them."""
    from pyspark.sql import functions as F

    count = F.col(f"n{index}")
    values = [
        F.col(f"s{index}")[f"c{j}"].alias(f"c{index}_{j}") for j in range(len(plan.fields[index]))
    ]
    lacked = F.when(count > 0, count).alias(f"n{index}")
    return [lacked, *(F.col(f"{what}{index}") for what in "btxf"), *values]


def _quoted(name: str) -> str:
    """A column's name as Spark takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _streams(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        content = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_pydict({"batch": content})
