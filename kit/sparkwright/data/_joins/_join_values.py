"""Arrow columns as numbers of an array, and which of their values are none."""

from typing import Any

import numpy as np

from sparkwright.data._class_values import class_numbers, classes_text, one_hot
from sparkwright.data._dataset import Array

from ._join_plan import Part


def part_values(column: Any, part: Part) -> tuple[Array, Array]:
    """What a column contributes to an array.

    Args:
        column: Arrow array of n values.
        part: what to make of it; classes known.

    Returns:
        (n, width) float32 or int32; (n,) bool, False where there is no usable value.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if part.kind == "array":
        return _arrays(column, valid)
    if part.kind == "class":
        assert part.classes is not None
        assert part.classes != "infer"
        if isinstance(part.classes, int):
            values, good = class_numbers(_numbers(column, np.float64), part.classes)
        else:
            texts = column.fill_null("").to_numpy(zero_copy_only=False)
            values, good = class_numbers(texts, part.classes)
        if part.hot:
            count = part.classes if isinstance(part.classes, int) else len(part.classes)
            return one_hot(values, count), good & valid
        return values[:, None], good & valid
    if part.kind == "integer":
        wide = column.fill_null(0).to_numpy(zero_copy_only=False)
        limits = np.iinfo(np.int32)
        good = valid & (wide >= limits.min) & (wide <= limits.max)
        return np.where(good, wide, 0).astype(np.int32)[:, None], good
    values = _numbers(column, np.float32)
    return values[:, None], valid & ~np.isnan(values)


def part_rule(part: Part) -> str:
    """What a column must hold, for a message."""
    if part.kind == "class":
        assert part.classes is not None
        assert part.classes != "infer"
        return classes_text(part.classes)
    if part.kind == "integer":
        return "32-bit integers"
    return "arrays of numbers, all of one length" if part.kind == "array" else "numbers"


def _numbers(column: Any, dtype: Any) -> Array:
    """(n,) of dtype; NaN where there is no number."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(dtype)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        try:
            column = column.cast(kind)
        except pa.ArrowInvalid:
            column = pa.array([_number(text) for text in column.to_pylist()], kind)
    return column.cast(kind).fill_null(float("nan")).to_numpy(zero_copy_only=False)


def _number(text: str | None) -> float | None:
    try:
        return None if text is None or "_" in text else float(text)
    except ValueError:
        return None


def _arrays(column: Any, valid: Array) -> tuple[Array, Array]:
    import pyarrow as pa

    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    width = int(lengths[np.argmax(valid)]) if valid.any() else 1
    good = valid & (lengths == width)
    values = np.zeros((len(valid), max(width, 1)), np.float32)
    if good.any() and width:
        kept = column.filter(pa.array(good)).flatten().fill_null(float("nan"))
        values[good] = kept.to_numpy(zero_copy_only=False).reshape(-1, width)
    good &= ~np.isnan(values).any(axis=1)
    return values, good & (width > 0)
