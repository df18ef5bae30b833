"""DataFrames of pandas and of Spark: which columns become what, and which cannot."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkwright.errors import DataError

from ._arrow_columns import column_of
from ._column_choice import ColumnChoice, Columns
from ._columnar import is_nested
from ._table_schema import TableSchema, listed
from .dataset import DataSet
from .pieces import SkipLog
from .tables import report, taken, to_dataset
from .texts import is_string

Library = Literal["pandas", "Spark"]
Kind = Literal["number", "decimal", "text", "time", "nested", "other"]
# What to do about a column that is no number.
_REMEDIES: Mapping[tuple[str, str], str] = {
    ("pandas", "text"): "make numbers of them (`pandas.get_dummies(frame, columns=[…])`), or read "
    "them as categories (`sparkwright.data.read_pandas(frame, labels=…, categories={name: "
    '"infer"})`)',
    ("pandas", "time"): "make numbers of them, such as `(frame[name] - start).dt.days`",
    ("pandas", "nested"): "make columns of their parts, as `pandas.json_normalize` does",
    ("Spark", "text"): "make numbers of them first: Spark ML's StringIndexer, or "
    "`pyspark.sql.functions`; from files, `from_csv` and `from_parquet` do so themselves "
    "(`classes`, `categories`). Features may be text, a string a row, in an input of their own",
    ("Spark", "time"): "make numbers of them, such as `frame.withColumn(name, "
    "datediff(frame[name], lit('2000-01-01')))`",
    (
        "Spark",
        "decimal",
    ): 'convert them first: `frame.withColumn(name, frame[name].cast("double"))`',
    ("Spark", "nested"): "select their fields first, as `frame.select('*', 'name.field')`; images: "
    "`from_dataframe(frame, features=name, size=(height, width))`",
    ("Spark", "other"): "leave them out: `features=[…]`; files of images: "
    "`from_dataframe(frame, features=name, size=(height, width))`",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameColumns:
    """The columns of a DataFrame, as given to `fit` and `start`.

    Attributes:
        features: the columns of the only input, or input name -> its columns; None: all others.
        label: the column to predict, or several; None: the column `label` if there is one.
        weights: the column of example weights; None: there is none.
        needs_label: whether a DataFrame without a label is an error.
    """

    features: Columns | Mapping[str, Columns] | None = None
    label: str | Sequence[str] | None = None
    weights: str | None = None
    needs_label: bool = False

    @property
    def is_default(self) -> bool:
        """Whether nothing is said of columns that would need a DataFrame."""
        return self.features is None and self.label is None

    def labels(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns to predict of a DataFrame with `columns`.

        Raises:
            DataError: if a column of this choice is not there, or a label is needed.
        """
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
    """The columns of a DataFrame of pandas or Spark; None: it is none."""
    columns = getattr(data, "columns", None)
    return None if columns is None or callable(columns) else list(map(str, columns))


def check_validation_columns(validation: Any, schema: TableSchema | None) -> None:
    """Raise DataError if a DataFrame that validates lacks columns of the training data."""
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
    """How the columns of a DataFrame become arrays; labels of text become classes.

    Args:
        kinds: column -> its type in Arrow; None: it has none.
        shown: column -> its type for messages.
        chosen: which columns become what.
        library: whose DataFrame it is.
        values: columns -> the different texts of each.
        shapes: column of arrays -> shape of one; default None: there are no such columns.

    Raises:
        DataError: naming the columns that are not there or cannot be trained on.
    """
    columns = list(kinds)
    labels = chosen.labels(columns)
    named = len(labels) == 1 and kind_of(kinds[labels[0]]) == "text"
    choice = ColumnChoice(
        features=chosen.features,
        labels=list(labels) or None,
        classes="infer" if named else None,
        weights=chosen.weights,
    )
    # Nobody asked for an input of text who named no features.
    texts = set() if chosen.features is None else text_inputs(kinds, choice.inputs(columns))
    used = [n for n in choice.used(columns) if n not in texts and not (named and n in labels)]
    refuse_unsuitable({name: kinds[name] for name in used}, shown, library=library)
    return replace(choice, text=sorted(texts)).schema(
        columns, values=values(choice.to_infer(columns)), shapes=shapes
    )


def refuse_unsuitable(
    kinds: Mapping[str, Any], shown: Mapping[str, str], *, library: Library, decimals: bool = True
) -> None:
    """Refuse columns that hold no numbers, before anything is trained.

    Args:
        kinds: column -> its type in Arrow; None: it has none.
        shown: column -> its type for messages.
        library: whose DataFrame it is.
        decimals: whether decimal numbers are numbers; default True.

    Raises:
        DataError: naming all these columns, their types and what to do.
    """
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
    """What a column of an Arrow type holds; of arrays of one type, what these hold."""
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
    """The columns of the inputs that hold text alone."""
    inputs = [set(names) for names in features.values()]
    return {
        name
        for names in inputs
        if all(kind_of(kinds[n]) == "text" for n in names)
        for name in names
    }


def refuse_missing(table: Any, schema: TableSchema, *, library: Library) -> None:
    """Raise DataError naming the columns with missing values, unless the schema says what to do."""
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
    """The examples of an Arrow table; labels that are integers stay so. None: no row is left.

    Args:
        table: `pyarrow.Table` or `RecordBatch`.
        schema: what to make of it.
        place: row -> where it is, for messages.
        log: where rows that do not fit are reported, naming row and column.
    """
    made, faults = to_dataset(table, schema=schema)
    labels = {output: _integers(table, names, schema) for output, names in schema.labels.items()}
    columns = made.columns() | {
        f"labels/{output}": found for output, found in labels.items() if found is not None
    }
    good = report(faults, table.num_rows, place, log)
    return taken(DataSet.from_columns(columns), good)


def _integers(table: Any, names: Sequence[str], schema: TableSchema) -> Any:
    """A label column of integers that are all there, as they are; None: it is none."""
    import pyarrow as pa

    column = column_of(table, names[0])
    plain = len(names) == 1 and not any(n in names for n in schema.texts)
    if not plain or column.null_count:
        return None
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int32())
    return column.to_numpy() if pa.types.is_integer(column.type) else None


def refuse(_reason: str, message: str) -> None:
    """For a `SkipLog`: raise, without the offer to skip."""
    raise DataError(message)
