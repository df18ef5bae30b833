"""A network as a Spark SQL function: input columns to an output column."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet, Normalizer, TableSchema
from sparkwright.data.from_spark import dense, lengths_of, numbers_of
from sparkwright.data.tables import to_dataset
from sparkwright.errors import DataError
from sparkwright.workers.requests import Predicting

from ._inference import Inference, InferenceSession, with_normalized_features

Array = NDArray[Any]
_SQL_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "bigint"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnReader:
    """Converts the columns of an SQL call to a network's inputs."""

    inputs: Mapping[str, tuple[int | None, ...]]  # shape of one example; None is any length
    schema: TableSchema | None  # of the arguments; None: see `SparkNetwork.as_udf`

    def datasets(self, columns: Sequence[Any]) -> Iterator[tuple[NDArray[np.intp], DataSet]]:
        """Yield row numbers and examples, grouped by the lengths of the inputs."""
        if self.schema is not None:
            dataset = _by_schema(columns, self.schema)
            yield np.arange(len(dataset)), dataset
            return
        names = list(self.inputs)
        if len(names) == 1 and len(columns) > 1:
            arrays = {
                names[0]: np.stack(
                    [numbers_of(c, _called(i)) for i, c in enumerate(columns)], axis=1
                )
            }
            yield np.arange(len(columns[0])), self._shaped(arrays)
            return
        if len(names) != len(columns):
            raise DataError(
                f"the function needs one column for each of the network's inputs {names}, or for a "
                f"single input one column per number. Received: {len(columns)} columns."
            )
        lengths = np.stack([lengths_of(c, _called(i)) for i, c in enumerate(columns)], axis=1)
        kinds, kind_of = np.unique(lengths, axis=0, return_inverse=True)
        for kind in range(len(kinds)):
            rows = np.flatnonzero(kind_of.reshape(-1) == kind)
            arrays = {
                name: dense(column.take(_indices(rows)), _called(i))
                for i, (name, column) in enumerate(zip(names, columns, strict=True))
            }
            yield rows, self._shaped(arrays)

    def _shaped(self, arrays: Mapping[str, Array]) -> DataSet:
        """Reshape each example to the input's shape if the number of elements fits."""
        shaped: dict[str, Array] = {}
        for name, array in arrays.items():
            shape, free = (
                self.inputs[name],
                [i for i, n in enumerate(self.inputs[name]) if n is None],
            )
            wanted = tuple(-1 if n is None else n for n in shape)
            given = int(np.prod(array.shape[1:], dtype=np.int64))
            fixed = int(np.prod([n for n in shape if n is not None], dtype=np.int64))
            fits = given == fixed if not free else len(free) == 1 and given % max(fixed, 1) == 0
            if not fits:
                raise DataError(
                    f"input {name!r} of the network takes examples of shape {shape}. Received: "
                    f"{array.shape[1:]} in the column."
                )
            array = array.reshape(len(array), *wanted)
            shaped[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return DataSet(shaped)


def sql_function(
    inference: Inference,
    *,
    reader: ColumnReader,
    # (dtype, shape of one example) by name.
    outputs: Mapping[str, tuple[str, tuple[int | None, ...]]],
    normalizer: Normalizer | None,
) -> Any:
    """Create a Spark SQL function; see `SparkNetwork.as_udf`."""
    import pyarrow as pa

    def predict(batches: Any) -> Any:
        session = InferenceSession(inference)
        for batch in batches:
            columns = batch if isinstance(batch, tuple) else (batch,)
            yield _predicted(session, columns, reader, outputs, normalizer)

    predict.__annotations__ = {
        "batches": Iterator[tuple[pa.Array, ...]],
        "return": Iterator[pa.Array],
    }
    fields = {name: _sql_type(*output) for name, output in outputs.items()}
    kind = next(iter(fields.values()))
    if len(fields) > 1:
        kind = f"struct<{', '.join(f'`{name}`: {field}' for name, field in fields.items())}>"
    return _udf(predict, kind)


def _udf(predict: Any, kind: str) -> Any:
    """Wrap `predict`, a function of batches of pyarrow columns, as an SQL function."""
    from pyspark.sql import functions

    if hasattr(functions, "arrow_udf"):
        return functions.arrow_udf(predict, returnType=kind)  # pyright: ignore

    # Before PySpark 4.1. pandas cannot distinguish missing numbers from NaN: NaN counts as missing.
    import pandas as pd
    import pyarrow as pa

    def predict_pandas(batches: Any) -> Any:
        def columns() -> Iterator[Any]:
            for batch in batches:
                given = batch if isinstance(batch, tuple) else (batch,)
                yield tuple(_from_pandas(column) for column in given)

        for found in predict(columns()):
            if pa.types.is_struct(found.type):
                names = [field.name for field in found.type]
                yield pd.DataFrame(dict(zip(names, map(_to_pandas, found.flatten()), strict=True)))
            else:
                yield _to_pandas(found)

    several = kind.startswith("struct")
    predict_pandas.__annotations__ = {
        "batches": Iterator[tuple[pd.Series, ...]],
        "return": Iterator[pd.DataFrame if several else pd.Series],
    }
    return functions.pandas_udf(predict_pandas, returnType=kind)  # pyright: ignore


def schema_columns(schema: TableSchema) -> list[str]:
    """Return the columns used by the features of `schema`, in the order of the table."""
    used = {name for names in schema.features.values() for name in names}
    return [name for name in schema.columns if name in used]


def _predicted(
    session: InferenceSession,
    columns: Sequence[Any],
    reader: ColumnReader,
    outputs: Mapping[str, tuple[str, tuple[int | None, ...]]],
    normalizer: Normalizer | None,
) -> Any:
    import pyarrow as pa

    what = Predicting(normalizer=normalizer)

    if not len(columns[0]):
        return pa.array([], _arrow_type(outputs))
    places: list[NDArray[np.intp]] = []
    found: list[Any] = []
    for rows, dataset in reader.datasets(columns):
        made = _outputs_of(session, with_normalized_features(normalizer, dataset), what)
        arrays = [_to_arrow(made[name], len(shape)) for name, (_, shape) in outputs.items()]
        places.append(rows)
        found.append(
            arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, list(outputs))
        )
    if len(found) == 1:
        return found[0]
    order = np.argsort(np.concatenate(places))
    return pa.concat_arrays(found).take(_indices(order))


def _outputs_of(session: InferenceSession, dataset: DataSet, what: Predicting) -> dict[str, Array]:
    """Compute the outputs of a batch of any size, in small pieces."""
    parts = [session.run(piece, what) for piece in session.inference.cut(dataset)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _by_schema(columns: Sequence[Any], schema: TableSchema) -> DataSet:
    import pyarrow as pa

    names = schema_columns(schema)
    if len(names) != len(columns):
        raise DataError(
            f"the function needs the columns {names} in this order: the feature columns of the "
            f"training data. Received: {len(columns)} columns."
        )
    table = pa.table(dict(zip(names, columns, strict=True)))
    dataset, faults = to_dataset(table, schema=schema.without_labels())
    wrong = [fault for fault in faults if len(fault.rows)]
    if wrong:
        raise DataError(wrong[0].message(int(wrong[0].rows[0])))
    return dataset


def _from_pandas(column: Any) -> Any:
    """Convert a pandas column to pyarrow."""
    import pyarrow as pa

    rows = column.to_numpy()
    # pyarrow converts rows that are arrays one by one; joining them takes a quarter of the time.
    if len(rows) and all(isinstance(row, np.ndarray) for row in rows):
        values = np.concatenate(rows)
        # A NaN may stand for a missing number; `pa.Array.from_pandas` handles that.
        if values.dtype.kind in "biu" or (values.dtype.kind == "f" and not np.isnan(values).any()):
            offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
            return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    return pa.Array.from_pandas(column)


def _to_pandas(column: Any) -> Any:
    import pandas as pd

    return pd.Series(column.to_numpy(zero_copy_only=False))


def _called(number: int) -> str:
    return f"argument {number + 1}"


def _indices(rows: NDArray[np.intp]) -> Any:
    import pyarrow as pa

    return pa.array(rows.astype(np.int64))


def _sql_type(dtype: str, shape: Sequence[int | None]) -> str:
    """Return the SQL type of an output: a number if an example has only one, else arrays."""
    kind = _SQL_TYPES.get(dtype, "float")
    axes = 0 if tuple(shape) == (1,) else len(shape)
    return "array<" * axes + kind + ">" * axes


def _arrow_type(outputs: Mapping[str, tuple[str, tuple[int | None, ...]]]) -> Any:
    import pyarrow as pa

    empty = {
        name: _to_arrow(np.zeros((0, *(n or 0 for n in shape)), _known(dtype)), len(shape)).type
        for name, (dtype, shape) in outputs.items()
    }
    return next(iter(empty.values())) if len(empty) == 1 else pa.struct(list(empty.items()))


def _known(dtype: str) -> str:
    return dtype if dtype in _SQL_TYPES else "float32"


def _to_arrow(array: Array, axes: int) -> Any:
    """Return a column of numbers, or of arrays nested to the depth of an example."""
    import pyarrow as pa

    flat = pa.array(array.astype(_known(str(array.dtype)), copy=False).reshape(-1))
    if axes == 1 and array.shape[1:] == (1,):
        return flat
    for size in reversed(array.shape[1:]):
        offsets = np.arange(0, len(flat) + 1, max(size, 1), dtype=np.int32)
        flat = pa.ListArray.from_arrays(pa.array(offsets), flat)
    return flat
