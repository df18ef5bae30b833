"""Columns of pandas and Spark DataFrames: their use as features and labels, and type checks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sparkwright.errors import DataError

from ._arrow_columns import column_of
from ._column_choice import Columns, column_groups, schema_of
from ._columnar import is_nested
from ._skipped import SkipLog, report, taken
from ._table_schema import TableSchema
from .dataset import DataSet
from .tables import to_dataset
from .texts import is_string
from .wording import listed

Library = Literal["pandas", "Spark"]
Kind = Literal["number", "decimal", "text", "time", "nested", "other"]
# Remedies for non-numeric columns.
_REMEDIES: Mapping[tuple[str, str], str] = {
    (
        "pandas",
        "text",
    ): "convert them to numbers (`pandas.get_dummies(frame, columns=[…])`), or read "
    "them as categories (`sparkwright.data.read_pandas(frame, labels=…, categories={name: "
    '"infer"})`)',
    ("pandas", "time"): "convert them to numbers, such as `(frame[name] - start).dt.days`",
    ("pandas", "nested"): "split them into columns, such as with `pandas.json_normalize`",
    ("Spark", "text"): "convert them to numbers first: Spark ML's StringIndexer or "
    "`pyspark.sql.functions`; for files, `from_csv` and `from_parquet` convert them "
    "(`classes`, `categories`). Text features, one string per row, need their own input",
    ("Spark", "time"): "convert them to numbers, such as `frame.withColumn(name, "
    "datediff(frame[name], lit('2000-01-01')))`",
    (
        "Spark",
        "decimal",
    ): 'convert them first: `frame.withColumn(name, frame[name].cast("double"))`',
    ("Spark", "nested"): "select their fields first: `frame.select('*', 'name.field')`; images: "
    "`from_dataframe(frame, features=name, size=(height, width))`",
    ("Spark", "other"): "leave them out: `features=[…]`; image files: "
    "`from_dataframe(frame, features=name, size=(height, width))`",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameColumns:
    """The selected columns of a DataFrame: the arguments of `fit` and `start`."""

    features: Columns | Mapping[str, Columns] | None = None  # None: all other columns
    label: str | Sequence[str] | None = None  # None: the column `label`, if it exists
    weights: str | None = None
    needs_label: bool = False

    @property
    def is_default(self) -> bool:
        """Whether neither features nor label are selected."""
        return self.features is None and self.label is None

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the label columns of a DataFrame with `columns`."""
        label = "label" if self.label is None and "label" in columns else self.label
        names = () if label is None else (label,) if isinstance(label, str) else tuple(label)
        given: Any = self.features or ()
        groups = given.values() if isinstance(given, Mapping) else [given]
        parts = [part for g in groups for part in (list(g) if isinstance(g, list | tuple) else [g])]
        wanted = [*parts, *names, *([self.weights] if self.weights else [])]
        missing = [n for n in wanted if isinstance(n, str) and n not in columns]
        if missing:
            raise DataError(
                f"unknown columns {listed(missing)}. The DataFrame has {listed(columns)}."
            )
        if self.needs_label and not names:
            raise DataError(
                "a DataFrame to train on needs a column to predict. Received: none of "
                f'{listed(columns)}. Name it: `fit(frame, label="…")`.'
            )
        return names


def columns_of_frame(data: Any) -> list[str] | None:
    """Return the column names of a pandas or Spark DataFrame; None for other data."""
    columns = getattr(data, "columns", None)
    return None if columns is None or callable(columns) else list(map(str, columns))


def check_validation_columns(validation: Any, schema: TableSchema | None) -> None:
    """Raise DataError if a validation DataFrame lacks columns of the training data."""
    known = columns_of_frame(validation)
    if schema is None or known is None or "features" in known:
        return
    if missing := [n for n in schema.used if n not in (*known, schema.weights)]:
        raise DataError(
            f"validation data must have the columns of the training data. Received: {listed(known)}"
            f", without {listed(missing)}. Add or rename these columns."
        )


def schema_of_frame(
    kinds: Mapping[str, Any],
    shown: Mapping[str, str],
    chosen: FrameColumns,
    *,
    library: Library,
    values: Callable[[tuple[str, ...]], Mapping[str, Iterable[str]]],
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> TableSchema:
    """Return the schema of columns of Arrow types (None: of no such type) and shown types."""
    columns = list(kinds)
    labels = chosen.labels(columns)
    named = len(labels) == 1 and kind_of(kinds[labels[0]]) == "text"
    # Without selected features, text columns are an error rather than text inputs.
    texts: set[str] = set()
    if chosen.features is not None:
        texts = text_inputs(kinds, column_groups(columns, chosen.features, option="features"))

    def checked_shapes(used: tuple[str, ...]) -> Mapping[str, tuple[int, ...]]:
        other = texts.union(labels if named else ())
        numbers = {name: kinds[name] for name in used if name not in other}
        refuse_unsuitable(numbers, shown, library=library)
        return shapes or {}

    return schema_of(
        columns,
        values,
        checked_shapes,
        features=chosen.features,
        labels=list(labels) or None,
        classes="infer" if named else None,
        text=sorted(texts),
        weights=chosen.weights,
    )


def refuse_unsuitable(
    kinds: Mapping[str, Any], shown: Mapping[str, str], *, library: Library, decimals: bool = True
) -> None:
    """Raise DataError for non-numeric columns before training starts; see `schema_of_frame`."""
    allowed = ("number", "decimal") if decimals else ("number",)
    held: dict[str, Kind] = {name: kind_of(kind) for name, kind in kinds.items()}
    wrong = {name: kind for name, kind in held.items() if kind not in allowed}
    if not wrong:
        return
    remedies = [
        f"{listed(n for n, k in wrong.items() if k == kind)}: "
        f"{_REMEDIES.get((library, kind), 'leave them out: `features=[…]`')}."
        for kind in dict.fromkeys(wrong.values())
    ]
    received = ", ".join(f"{name!r} of type {shown[name]:.99}" for name in wrong)
    raise DataError(
        f"columns for training must hold numbers. Received: {received}. {' '.join(remedies)}"
    )


def kind_of(kind: Any) -> Kind:
    """Return the kind of an Arrow type; for arrays and dictionaries, that of their elements."""
    import pyarrow as pa

    types: Any = pa.types
    if kind is None:
        return "other"
    if types.is_dictionary(kind) or is_nested(kind):
        return kind_of(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "number"
    if types.is_decimal(kind):
        return "decimal"
    if is_string(kind) or str(kind) == "string_view":
        return "text"
    if types.is_temporal(kind):
        return "time"
    return "nested" if types.is_nested(kind) else "other"


def text_inputs(kinds: Mapping[str, Any], features: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the columns of all inputs that consist of text columns only."""
    inputs = [set(names) for names in features.values()]
    return {
        name
        for names in inputs
        if all(kind_of(kinds[n]) == "text" for n in names)
        for name in names
    }


def refuse_missing(table: Any, schema: TableSchema, *, library: Library) -> None:
    """Raise DataError naming the columns with missing values if `schema.missing` is "error"."""
    if schema.missing != "error":
        return
    import pyarrow.compute

    functions: Any = pyarrow.compute
    counts = {
        name: functions.sum(functions.is_null(table.column(name), nan_is_null=True)).as_py()
        for name in schema.used
    }
    if not any(counts.values()):
        return
    received = ", ".join(f"{name!r}: {count}" for name, count in counts.items() if count)
    remedy = (
        "Fill them (`frame.fillna(…)`) or drop them (`frame.dropna()`)."
        if library == "Spark"
        else "Fill them (`frame.fillna(…)`), drop them (`frame.dropna()`), or read the DataFrame "
        'with `sparkwright.data.read_pandas(frame, …, missing="median")`.'
    )
    raise DataError(
        f"columns for training must have no missing values. Received: {received}, of "
        f"{table.num_rows} rows{' of a batch' if library == 'Spark' else ''}. {remedy}"
    )


def examples_of(
    table: Any, schema: TableSchema, place: Callable[[int], str], log: SkipLog
) -> DataSet | None:
    """Return the valid examples of an Arrow table, or None; `place` locates a row for messages."""
    made, faults = to_dataset(table, schema=schema)
    labels = {output: _integers(table, names, schema) for output, names in schema.labels.items()}
    columns = made.columns() | {
        f"labels/{output}": found for output, found in labels.items() if found is not None
    }
    good = report(faults, table.num_rows, place, log)
    return taken(DataSet.from_columns(columns), good)


def _integers(table: Any, names: Sequence[str], schema: TableSchema) -> Any:
    """Return a column of integers without missing values unchanged; None for other columns."""
    import pyarrow as pa

    column = column_of(table, names[0])
    plain = len(names) == 1 and not any(n in names for n in schema.texts)
    if not plain or column.null_count:
        return None
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int32())
    return column.to_numpy() if pa.types.is_integer(column.type) else None
