"""Read and write tf.train.Example with protobuf and NumPy, without TensorFlow.

References:
    TensorFlow, `tensorflow/core/example/example.proto` and `feature.proto`.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._record_examples import DTYPES, from_little
from .dataset import Array

# Written as bytes, because a list of numbers would be inexact or larger.
_AS_BYTES = {"float64", "uint8", "uint64"}


@functools.cache
def _example_class(*, floats_as_bytes: bool) -> Any:
    """Return the class of tf.train.Example, in a separate pool; TensorFlow uses the default one."""
    # Packed floats are encoded like a byte string of consecutive float32 numbers, which is written
    # ten times as fast. Not used for reading, because floats may be unpacked.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    form: Any = descriptor_pb2.FieldDescriptorProto
    file: Any = descriptor_pb2.FileDescriptorProto(
        name="example.proto", package="sparkwright", syntax="proto3"
    )
    one, many, message = form.LABEL_OPTIONAL, form.LABEL_REPEATED, form.TYPE_MESSAGE
    floats = form.TYPE_BYTES if floats_as_bytes else form.TYPE_FLOAT
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    lists = {"Bytes": form.TYPE_BYTES, "Float": floats, "Int64": form.TYPE_INT64}
    for number, (name, kind) in enumerate(lists.items(), start=1):
        values = file.message_type.add(name=f"{name}List")
        values.field.add(name="value", number=1, label=many, type=kind)
        field = feature.field.add(name=f"{name.lower()}_list", number=number, label=one)
        field.MergeFrom(form(type=message, type_name=f".sparkwright.{name}List", oneof_index=0))
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, label=one, type=form.TYPE_STRING)
    for owner, name, number, label, kind in (
        (entry, "value", 2, one, "Feature"),
        (features, "feature", 1, many, "Features.FeatureEntry"),
        (file.message_type.add(name="Example"), "features", 1, one, "Features"),
    ):
        type_name = f".sparkwright.{kind}"
        owner.field.add(name=name, number=number, label=label, type=message, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkwright.Example"))


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureSpec:
    """One feature of an Example, and its column."""

    key: str
    column: str
    shape: tuple[int, ...] | None = None  # one axis may be -1; None: (count,), or () for a label
    dtype: str | None = None  # None: float32, or int32 for integer labels
    default: float | None = None  # None: the feature is required

    def __post_init__(self) -> None:
        """Check the fields; raises ConfigurationError."""
        shape, dtype, default = self.shape or (), self.dtype, self.default
        rules = {
            "a shape of integers of at least 1, of which one may be -1": shape.count(-1) <= 1
            and all(isinstance(size, int) and (size == -1 or size >= 1) for size in shape),  # pyright: ignore[reportUnnecessaryIsInstance]
            f"one of the dtypes {sorted(DTYPES)}": dtype in {None, *DTYPES},
            "a shape without -1 where it has a default": default is None
            or (self.shape is not None and -1 not in shape),
            "a default that is a number and that its dtype holds": default is None
            or _fits(default, dtype or "float32"),
        }
        for rule in (rule for rule, holds in rules.items() if not holds):
            raise ConfigurationError(
                f"a feature must have {rule}. Received: {self.key!r} with dtype={dtype!r}, shape="
                f"{self.shape!r}, default={default!r}. To decode texts or images, use `convert`."
            )


def _fits(default: Any, dtype: str) -> bool:
    """Whether `dtype` can represent `default`: integers exactly, others within its range."""
    try:
        with np.errstate(over="ignore"):
            held = np.array(default, dtype)
        if held.dtype.kind == "f":
            return bool(np.isfinite(held)) or not math.isfinite(default)
        return bool(held == default)
    except (TypeError, ValueError, OverflowError):
        return False


def feature_specs(group: str, asked: Any) -> tuple[FeatureSpec, ...]:
    """Return a spec for each requested feature.

    Example:
        >>> feature_specs("features", {"image": ((28, 28), "uint8")})[0].column
        'features/image'
    """
    named: Any = [asked] if isinstance(asked, str) else () if asked is None else asked
    if isinstance(named, Sequence):
        named = dict.fromkeys(named)
    try:
        return tuple(_spec(group, key, kind) for key, kind in named.items())
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(
            f"`{group}` must be names, or a dict: name -> (shape, dtype) or (shape, dtype, "
            f"default). Received: {group}={asked!r}."
        ) from None


def _spec(group: str, key: Any, kind: Any) -> FeatureSpec:
    if not isinstance(key, str):
        raise TypeError
    if kind is None:
        return FeatureSpec(key=key, column=f"{group}/{key}")
    shape, dtype, default = kind if len(kind) == 3 else (*kind, None)
    try:
        dtype = np.dtype(dtype).name
    except TypeError:
        dtype = str(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return FeatureSpec(key=key, column=f"{group}/{key}", shape=shape, dtype=dtype, default=default)


def parse_example(content: bytes) -> dict[str, Any]:
    """Parse a serialized Example: key -> array of float32 or int64, or list of bytes."""
    from google.protobuf.message import DecodeError

    try:
        features = _example_class(floats_as_bytes=False).FromString(content).features.feature
    except DecodeError as error:
        raise DataError(
            f"a record must be a serialized tf.train.Example. Received: {content[:20]!r}… "
            f"({error})."
        ) from None
    dtypes = {"float_list": np.float32, "int64_list": np.int64}
    found: dict[str, Any] = {}
    for key, feature in features.items():
        if kind := feature.WhichOneof("kind"):
            values = getattr(feature, kind).value
            found[key] = np.array(values, dtypes[kind]) if kind in dtypes else list(values)
    return found


def columns_of(example: Mapping[str, Any], specs: Sequence[FeatureSpec]) -> dict[str, Array]:
    """Return the columns of one example, without the axis of the examples."""
    return {spec.column: _column(example, spec) for spec in specs}


def _column(example: Mapping[str, Any], spec: FeatureSpec) -> Array:
    values: Any = example.get(spec.key, [])
    if not len(values):
        if spec.default is None:
            known = ", ".join(sorted(map(repr, example))[:10])
            raise DataError(
                f"an example must have the feature {spec.key!r}, with a value. "
                f"Received: one with {known or 'no feature'}. Give a default: "
                f"`{{{spec.key!r}: (shape, dtype, default)}}`."
            )
        assert spec.shape is not None
        return np.full(spec.shape, spec.default, spec.dtype)
    is_label = spec.column.startswith("labels/")
    integers = isinstance(values, np.ndarray) and values.dtype == np.int64
    dtype = spec.dtype or ("int32" if is_label and integers else "float32")
    target = np.dtype(dtype)
    if isinstance(values, list):
        if spec.dtype is None or len(values) != 1 or len(values[0]) % target.itemsize:
            received = f"bytes, {len(values)} pieces, the first of {len(values[0])} bytes"
            raise _unfit(
                spec, f"the bytes of {spec.dtype or 'known'} numbers, in one piece", received
            )
        array = from_little(np.frombuffer(values[0], np.uint8), dtype)
    elif not integers and target.kind != "f":
        raise _unfit(spec, f"values that become {target}", "floats")
    else:
        array = values.astype(target, copy=False)
        # If the smallest and the largest fit, all do.
        extremes = (values.argmin(), values.argmax())
        if target.kind in "biu" and any(int(values[i]) != int(array[i]) for i in extremes):
            received = f"integers from {values.min()} to {values.max()}"
            raise _unfit(spec, f"numbers that fit into {target}", received)
    if spec.shape is None:
        return array.reshape(()) if array.size == 1 and is_label else array
    try:
        if not array.size:
            raise ValueError
        return array.reshape(spec.shape)
    except ValueError:
        raise _unfit(spec, f"as many values as its shape {spec.shape}", str(array.size)) from None


def _unfit(spec: FeatureSpec, rule: str, received: str) -> DataError:
    return DataError(
        f"the feature {spec.key!r} must have {rule}. Received: {received}. Ask for another shape "
        f"or dtype, `{{{spec.key!r}: (shape, dtype)}}`, or use `convert`."
    )


def serialized_examples(columns: Mapping[str, Array]) -> list[bytes]:
    """Return one serialized Example per row of `columns` (key -> array).

    float32 and float16 become a float_list, integers and booleans an int64_list. float64, uint8 and
    uint64 become a bytes_list with one little-endian element.
    """
    example_class = _example_class(floats_as_bytes=True)
    count = next(iter(columns.values())).shape[0]
    rows: dict[str, tuple[str, list[Any]]] = {}
    for key, array in columns.items():
        flat = array.reshape(count, -1)
        if array.dtype.name in _AS_BYTES or array.dtype.kind == "f":
            kind = "bytes_list" if array.dtype.name in _AS_BYTES else "float_list"
            dtype = array.dtype if kind == "bytes_list" else np.dtype(np.float32)
            little = np.ascontiguousarray(flat, dtype.newbyteorder("<"))
            rows[key] = kind, [[row.tobytes()] for row in little]
        else:
            rows[key] = "int64_list", flat.astype(np.int64).tolist()
    found: list[bytes] = []
    for index in range(count):
        example = example_class()
        features = example.features.feature
        for key, (kind, values) in rows.items():
            getattr(features[key], kind).value.extend(values[index])
        found.append(example.SerializeToString(deterministic=True))
    return found
