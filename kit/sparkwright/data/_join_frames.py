"""Group and join sources by key with Spark SQL; return Arrow batches sorted by key."""

import pickle
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import run_job
from sparkwright.data._csv_format import CsvFormat, line_count
from sparkwright.data._csv_parse import inspect, parse
from sparkwright.data._csv_reader import ENDINGS, CsvReader
from sparkwright.data._join_plan import INTEGERS, Plan
from sparkwright.data._join_sources import Source
from sparkwright.data._table_source import files_of, piece_bytes
from sparkwright.data.pieces import SkipLog
from sparkwright.data.tables import Piece
from sparkwright.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import Column, DataFrame, SparkSession

# Type of a CSV column -> pattern of its values; the first type that fits all values is used.
_TYPES = {
    "bigint": r"^\s*[+-]?\d+\s*$",
    "double": r"^(?i)\s*([+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?|nan)\s*$",
    "boolean": r"^(?i)(true|false)$",
    "date": r"^\d{4}-\d\d-\d\d$",
    "timestamp": r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?$",
}
_FAULT, _FILE = "sparkwright_fault", "sparkwright_file"


def source_frame(spark: "SparkSession", source: Source) -> "DataFrame":
    """Return the source's DataFrame."""
    is_table = not isinstance(source.where, str)
    return source.where if is_table else _csv(spark, source.where, source.form)


def _csv(spark: "SparkSession", url: str, form: CsvFormat) -> "DataFrame":
    """Read CSV files; each column gets the narrowest type that holds all of its values."""
    from pyspark.sql import functions as F

    try:
        files = files_of(url, ENDINGS)
        reader = CsvReader.of(files, form)
    except OSError as error:
        raise DataError(f"CSV files must be readable. Received: {error}.") from None
    context = context_of(spark)
    pieces = reader.pieces(files, piece_bytes(files, context.defaultParallelism))
    text = spark.createDataFrame(
        context.parallelize(pieces, min(len(pieces), context.defaultParallelism)).map(
            lambda piece: (pickle.dumps(piece),)
        ),
        "piece binary",
    ).mapInArrow(
        partial(_rows_of_pieces, reader=reader),
        ", ".join(f"{_quoted(name)} string" for name in (*reader.names, _FAULT, _FILE)),
    )
    whole = F.col(_FAULT).isNull()
    columns = [F.col(_quoted(name)) for name in reader.names]
    fitting = [
        F.bool_and(F.when(whole & c.isNotNull(), c.rlike(look) & _try_cast(c, kind).isNotNull()))
        for c in columns
        for kind, look in _TYPES.items()
    ]
    found = run_job(spark, text.agg(*fitting).first, description=f"infer column types of {url}")
    assert found is not None
    fits = iter(found)
    kinds = [
        next((k for k, fit in [(k, next(fits)) for k in _TYPES] if fit), "string") for _ in columns
    ]
    typed = [_try_cast(c, k).alias(n) for c, k, n in zip(columns, kinds, reader.names, strict=True)]
    return text.select(*typed, _FAULT, _FILE)


def _rows_of_pieces(batches: Iterator[Any], *, reader: CsvReader) -> Iterator[Any]:
    for batch in batches:
        for content in batch.column(0).to_pylist():
            for table in tables_of(pickle.loads(content), reader):
                yield from table.to_batches()


def tables_of(piece: Piece, reader: CsvReader) -> Iterator[Any]:
    """Yield tables of a piece's text; an invalid row has a message in its `_FAULT` column."""
    import pyarrow as pa

    names = reader.names
    schema = pa.schema([(name, pa.string()) for name in (*names, _FAULT, _FILE)])
    notes: list[str] = []  # the join reports them
    log = SkipLog("skip", lambda reason, message: notes.append(f"{reason}: {message}"))

    def broken(rows: list[list[str | None]]) -> Any:
        columns = [list(column) for column in zip(*rows, strict=True)]
        return pa.table([*columns, [piece.url] * len(rows)], schema=schema)

    for content, columns, place in reader.blocks(piece, log):
        table = parse(content, reader.form, columns)
        wrong: list[list[str | None]] = []
        if table is None:
            found = inspect(content, reader.form, columns)
            table = found.table
            for fault in found.faults:
                for record in fault.rows.tolist():
                    line = place(line_count(content[: found.starts[record]]))
                    # Keep the fields: the key, if present, identifies the lost row.
                    text = found.text(record).decode(errors="backslashreplace")
                    row = [*reader.form.fields(text), *[None] * len(names)][: len(names)]
                    wrong.append([*row, f"{fault.reason}: {line}: {fault.message(record)}"])
        whole = [table.column(name).cast(pa.string()) for name in names]
        rest = [pa.nulls(table.num_rows), pa.repeat(piece.url, table.num_rows)]
        yield pa.table([*whole, *rest], [*names, _FAULT, _FILE]).cast(schema)
        if wrong:
            yield broken(wrong)
    if notes:
        yield broken([[*[None] * len(names), note] for note in notes])


def column_types(frame: "DataFrame") -> dict[str, str]:
    """Return column -> Spark type, without internal columns."""
    return {name: kind for name, kind in frame.dtypes if name not in (_FAULT, _FILE)}


def key_types(frames: Mapping[str, "DataFrame"], sources: Mapping[str, Source]) -> list[str]:
    """Return the Spark types of the key columns; all integer types count as bigint."""
    found: dict[str, list[str]] = {}
    for name, source in sources.items():
        types = dict(frames[name].dtypes)
        found[name] = ["bigint" if types[k] in INTEGERS else types[k] for k in source.key]
    first = next(iter(found.values()))
    if any(types != first for types in found.values()):
        raise ConfigurationError(
            "the keys of all sources must have the same types. Received: "
            + "; ".join(
                f"{', '.join(sources[name].key)} of {name!r}: {', '.join(types)}"
                for name, types in found.items()
            )
            + ". Cast them first. A CSV key column is text if any value is not a number."
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
    """Return an RDD of Arrow IPC streams with one row per key of any source, sorted by key.

    The key columns are `k0`, `k1`, …. Each source i has these columns:
    - `n{i}`: number of rows of the key, null if the source lacks the key
    - `x{i}`: fault of one row as "reason: message"; `f{i}`: number of faulty rows
    - `c{i}_{j}`: field j, a value or a list of steps

    Rows without a key are counted, without their fields.
    """
    from pyspark.sql import functions as F

    types = key_types(frames, sources)
    keys = [f"k{k}" for k in range(len(types))]
    # A union needs one shuffle; joining grouped sources would need one more per source.
    rows = reduce(
        lambda above, below: above.unionByName(below, allowMissingColumns=True),
        (
            _rows(frames[name], name, sources[name], plan.fields[index], index, types)
            for index, name in enumerate(plan.sources)
        ),
    )
    kept: list[Column] = []
    picked: list[Column] = []
    for i, fields in enumerate(plan.fields):
        row = F.col(f"s{i}")
        value = (F.max_by if last else F.min_by)(row, row["row"])
        kept += [
            F.count(f"n{i}").alias(f"n{i}"),
            F.min(f"x{i}").alias(f"x{i}"),
            F.count(f"x{i}").alias(f"f{i}"),
            (F.sort_array(F.collect_list(row)) if plan.sequential[i] else value).alias(f"s{i}"),
        ]
        picked += [F.when(F.col(f"n{i}") > 0, F.col(f"n{i}")).alias(f"n{i}")]
        picked += [F.col(f"x{i}"), F.col(f"f{i}")]
        picked += [row[f"c{j}"].alias(f"c{i}_{j}") for j in range(len(fields))]
    whole = rows.groupBy(*keys).agg(*kept).select(*keys, *picked)
    order = [F.col(key) for key in keys]
    if partitions is None:
        whole = whole.orderBy(*order)
    else:
        whole = whole.repartitionByRange(partitions, *order).sortWithinPartitions(*order)
    return whole.mapInArrow(_streams, "batch binary").rdd.map(lambda row: bytes(row.batch))


def _rows(
    frame: "DataFrame",
    name: str,
    source: Source,
    fields: tuple[tuple[str, str], ...],
    index: int,
    types: list[str],
) -> "DataFrame":
    """Select a source's rows: key, struct `s{i}` sorted like the steps, fault message."""
    from pyspark.sql import functions as F

    kinds = dict(frame.dtypes)
    keys = [
        F.col(_quoted(c)).cast(t).alias(f"k{k}")
        for k, (c, t) in enumerate(zip(source.key, types, strict=True))
    ]
    values: list[Column] = []
    for j, (column, kind) in enumerate(fields):
        value = F.col(_quoted(column))
        if kind == "string" and kinds[column] in ("float", "double"):
            value = F.when(~F.isnan(value), value)  # as text, NaN would be a class
        values.append(value.cast(kind).alias(f"c{j}"))
    number = F.monotonically_increasing_id().alias("row")
    order, faults = _order(kinds, name, source)
    if _FAULT in kinds:
        faults.insert(0, F.concat(F.col(_FAULT), F.lit(f" It is in source {name!r}.")))
    named = [column.alias(f"o{i}") for i, column in enumerate(order)]
    keyed = reduce(lambda a, b: a & b, (F.col(_quoted(c)).isNotNull() for c in source.key))
    return frame.select(
        *keys,
        F.lit(1).alias(f"n{index}"),
        # The fields of rows without a key would all be collected in one row of the result.
        F.when(keyed, F.struct(*named, number, *values)).alias(f"s{index}"),
        F.coalesce(*faults, F.lit(None).cast("string")).alias(f"x{index}"),
    )


def _order(
    kinds: Mapping[str, str], name: str, source: Source
) -> "tuple[list[Column], list[Column]]":
    """Return columns to sort steps by, and fault messages of invalid values, null if valid.

    A CSV column with a single text value has Spark's string type, which sorts 10 before 2.
    """
    from pyspark.sql import functions as F

    order: list[Column] = []
    faults: list[Column] = []
    for column_name in source.order:
        column, kind = F.col(_quoted(column_name)), kinds[column_name]
        lacking = (
            column.isNull() | F.isnan(column) if kind in ("float", "double") else column.isNull()
        )
        text = (
            f"missing value: each step of source {name!r} must have a value in its `order`. "
            "Received: none."
        )
        faults.append(F.when(lacking, text))
        if not isinstance(source.where, str) or kind != "string":
            order.append(column)
            continue
        number = _try_cast(column, "double")
        received = F.concat(
            F.lit(f"bad value: the `order` of source {name!r} must hold numbers. Received: "),
            F.substring(column, 1, 60),
            F.lit(f" in column {column_name!r} of "),
            F.col(_FILE),
            F.lit(". To sort by text, read the files with Spark and pass the DataFrame."),
        )
        faults.append(F.when(column.isNotNull() & (number.isNull() | F.isnan(number)), received))
        # Different integers above 2**53 may be equal as float64.
        order += [number, F.coalesce(_try_cast(column, "bigint"), _try_cast(number, "bigint"))]
    return order, faults


def _try_cast(column: Any, kind: str) -> Any:
    """Cast a column; values that cannot be cast become null."""
    # PySpark 3.5 lacks `try_cast`; its `cast` gives null unless `spark.sql.ansi.enabled` is set.
    cast = column.try_cast if hasattr(type(column), "try_cast") else column.cast
    return cast(kind)


def _quoted(name: str) -> str:
    """Quote a column name for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def _streams(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        content = pa.array([sink.getvalue().to_pybytes()], pa.binary())
        yield pa.RecordBatch.from_pydict({"batch": content})
