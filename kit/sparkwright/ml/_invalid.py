"""Rows with missing values in columns of numbers, vectors and arrays."""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from sparkwright.data.spark_columns import addressed
from sparkwright.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VALID = "__sparkwright_valid"
_FILLED = "__sparkwright_filled"


def without_invalid(frame: "DataFrame", names: Sequence[str]) -> "DataFrame":
    """Leave out rows with null or NaN in one of these columns."""
    there, columns = addressed(frame, names)
    valid = [_is_valid(there, column)[0] for column in columns]
    return there.where(reduce(and_, valid)).toDF(*frame.columns)


def with_filled(
    frame: "DataFrame", names: Sequence[str], shapes: Mapping[str, Sequence[int | None]]
) -> "tuple[DataFrame, list[str]]":
    """Add `VALID`, and copies of the columns with zeros in invalid rows; return their names.

    `shapes` has the shape of an example by column, for rows whose array is null.
    """
    from pyspark.sql import functions as F

    there, columns = addressed(frame, names)
    valid: list[Column] = []
    filled: dict[str, Column] = {}
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        is_valid, flat, is_array = _is_valid(there, column)
        shape = shapes.get(name, ())
        if is_array and None in shape:
            raise ConfigurationError(
                '`handleInvalid="keep"` needs inputs of a known shape. Received: '
                f'{tuple(shape)} for {name!r}. Use "skip" or "error".'
            )
        size = math.prod(n for n in shape if n is not None)
        zero: Any = F.array_repeat(F.lit(0.0), size) if is_array else F.lit(0.0)
        valid.append(is_valid)
        filled[f"{_FILLED}_{place}"] = F.when(is_valid, flat).otherwise(zero)
    made = there.select(
        "*", reduce(and_, valid).alias(VALID), *(c.alias(n) for n, c in filled.items())
    )
    return made.toDF(*frame.columns, VALID, *filled), [*filled]


def _is_valid(frame: "DataFrame", column: "Column") -> "tuple[Column, Column, bool]":
    """Return whether a row's values are known, its values, flat, and whether it is an array."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StringType

    kind: Any = frame.select(column).schema.fields[0].dataType
    is_array = isinstance(kind, ArrayType)
    valid = column.isNotNull()
    while isinstance(kind, ArrayType) and isinstance(kind.elementType, ArrayType):
        column, kind = F.flatten(column), kind.elementType
    if is_array:
        return valid & ~F.exists(column, lambda x: x.isNull() | F.isnan(x)), column, True
    if not isinstance(kind, StringType):
        valid &= ~F.isnan(column)
    return valid, column, False
