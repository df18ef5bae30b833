"""tf.train.Example without TensorFlow: protobuf parses it, NumPy holds its columns.

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

from ._dataset import Array
from ._record_examples import DTYPES, from_little

# No list of numbers holds these exactly, or none as small as their bytes.
_AS_BYTES = {"float64", "uint8", "uint64"}
_VALUES = "field {{ name: 'value' number: 1 label: LABEL_REPEATED type: TYPE_{} }}"
_ONE = "label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: '.sparkwright."
_EXAMPLE = f"""
name: 'example.proto' package: 'sparkwright' syntax: 'proto3'
message_type {{ name: 'BytesList' {_VALUES.format("BYTES")} }}
message_type {{ name: 'FloatList' {_VALUES.format("FLOAT")} }}
message_type {{ name: 'Int64List' {_VALUES.format("INT64")} }}
message_type {{
  name: 'Feature'
  oneof_decl {{ name: 'kind' }}
  field {{ name: 'bytes_list' number: 1 oneof_index: 0 {_ONE}BytesList' }}
  field {{ name: 'float_list' number: 2 oneof_index: 0 {_ONE}FloatList' }}
  field {{ name: 'int64_list' number: 3 oneof_index: 0 {_ONE}Int64List' }}
}}
message_type {{
  name: 'Features'
  field {{ name: 'feature' number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: '.sparkwright.Features.FeatureEntry' }}
  nested_type {{
    name: 'FeatureEntry'
    options {{ map_entry: true }}
    field {{ name: 'key' number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }}
    field {{ name: 'value' number: 2 {_ONE}Feature' }}
  }}
}}
message_type {{ name: 'Example' field {{ name: 'features' number: 1 {_ONE}Features' }} }}
"""


@functools.cache
def _example_class(*, floats_as_bytes: bool) -> Any:
    """Return the class of tf.train.Example, in a pool of its own: TensorFlow owns the usual one."""
    # Packed floats are float32 numbers one after another, as a byte string is, which is ten times
    # as fast to write. Not for reading: floats need not be packed.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    text = _EXAMPLE.replace("TYPE_FLOAT", "TYPE_BYTES") if floats_as_bytes else _EXAMPLE
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkwright.Example"))


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureSpec:
    """One feature of an Example, and the column that it becomes.

    Attributes:
        key: its name in the Example.
        column: flat name of the column.
        shape: of one example, one axis may be -1; None: (count,), of a single label ().
        dtype: NumPy's name; None: float32, of integers among labels int32.
        default: the value where the feature is missing; None: that is an error.
    """

    key: str
    column: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    default: float | None = None

    def __post_init__(self) -> None:
        """Check the fields; raises ConfigurationError."""
        shape, default = self.shape, self.default
        sizes = all(isinstance(n, int) and (n == -1 or n >= 1) for n in shape or ())  # pyright: ignore[reportUnnecessaryIsInstance]
        if not sizes or (shape or ()).count(-1) > 1:
            rule = "a shape of integers of at least 1, of which one may be -1"
        elif self.dtype is not None and self.dtype not in DTYPES:
            rule = f"one of the dtypes {sorted(DTYPES)}"
        elif default is None:
            return
        elif shape is None or -1 in shape:
            rule = "a shape without -1 where it has a default"
        elif not _fits(default, self.dtype or "float32"):
            rule = "a default that is a number and that its dtype holds"
        else:
            return
        raise ConfigurationError(
            f"a feature must have {rule}. Received: {self.key!r} with dtype={self.dtype!r}, "
            f"shape={shape!r}, default={default!r}. To decode texts or images, use `convert`."
        )


def _fits(default: Any, dtype: str) -> bool:
    """Whether `dtype` holds `default`: integers exactly, others within its range."""
    try:
        with np.errstate(over="ignore"):
            held = np.array(default, dtype)
        if held.dtype.kind == "f":
            return bool(np.isfinite(held)) or not math.isfinite(default)
        return bool(held == default)
    except (TypeError, ValueError, OverflowError):
        return False


def feature_specs(group: str, asked: Any) -> tuple[FeatureSpec, ...]:
    """Return a spec for each feature that a user asks for.

    Example:
        >>> feature_specs("features", {"image": ((28, 28), "uint8")})[0].column
        'features/image'
    """
    named: Any = [asked] if isinstance(asked, str) else () if asked is None else asked
    if isinstance(named, Sequence):
        named = dict.fromkeys(named)
    try:
        return tuple(_spec(group, key, kind) for key, kind in named.items())
    except ConfigurationError:
        raise
    except (TypeError, ValueError, AttributeError):
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


def parse_example(content: bytes) -> Any:
    """Parse a serialized Example: key -> tf.train.Feature."""
    from google.protobuf.message import DecodeError

    try:
        return _example_class(floats_as_bytes=False).FromString(content).features.feature
    except DecodeError as error:
        raise DataError(
            f"a record must be a serialized tf.train.Example. Received: {content[:20]!r}… "
            f"({error})."
        ) from None


def values_of(features: Any) -> dict[str, Any]:
    """Return all features for a user's function: arrays of float32 or int64, or lists of bytes."""
    dtypes = {"float_list": np.float32, "int64_list": np.int64}
    found: dict[str, Any] = {}
    for key, feature in features.items():
        if kind := feature.WhichOneof("kind"):
            values = getattr(feature, kind).value
            found[key] = np.array(values, dtypes[kind]) if kind in dtypes else list(values)
    return found


def columns_of(features: Any, specs: Sequence[FeatureSpec]) -> dict[str, Array]:
    """Return the columns of one example, without the axis of the examples."""
    return {spec.column: _column(features, spec) for spec in specs}


def _column(features: Any, spec: FeatureSpec) -> Array:
    feature = features.get(spec.key)  # [] would make an empty one
    kind = None if feature is None else feature.WhichOneof("kind")
    values = None if kind is None else getattr(feature, kind).value
    if not values:
        if spec.default is None:
            known = ", ".join(sorted(map(repr, features))[:10])
            raise DataError(
                f"an example must have the feature {spec.key!r}, with a value. "
                f"Received: one with {known or 'no feature'}. Give a default: "
                f"`{{{spec.key!r}: (shape, dtype, default)}}`."
            )
        assert spec.shape is not None
        return np.full(spec.shape, spec.default, spec.dtype)
    is_label = spec.column.startswith("labels/")
    dtype = spec.dtype or ("int32" if is_label and kind == "int64_list" else "float32")
    target = np.dtype(dtype)
    if kind == "bytes_list":
        if spec.dtype is None or len(values) != 1 or len(values[0]) % target.itemsize:
            received = f"bytes, {len(values)} pieces, the first of {len(values[0])} bytes"
            raise _unfit(
                spec, f"the bytes of {spec.dtype or 'known'} numbers, in one piece", received
            )
        array = from_little(np.frombuffer(values[0], np.uint8), dtype)
    elif kind == "float_list":
        if target.kind != "f":
            raise _unfit(spec, f"values that become {target}", "floats")
        array = np.array(values, np.float32).astype(target, copy=False)
    else:
        numbers = np.array(values, np.int64)
        array = numbers.astype(target, copy=False)
        # If the smallest and the largest fit, all do.
        extremes = (numbers.argmin(), numbers.argmax())
        if target.kind in "biu" and any(int(numbers[i]) != int(array[i]) for i in extremes):
            received = f"integers from {numbers.min()} to {numbers.max()}"
            raise _unfit(spec, f"numbers that fit into {target}", received)
    shape = spec.shape
    if shape is None:
        return array.reshape(()) if array.size == 1 and is_label else array
    try:
        if not array.size:
            raise ValueError
        return array.reshape(shape)
    except ValueError:
        raise _unfit(spec, f"as many values as its shape {shape}", str(array.size)) from None


def _unfit(spec: FeatureSpec, rule: str, received: str) -> DataError:
    return DataError(
        f"the feature {spec.key!r} must have {rule}. Received: {received}. Ask for another shape "
        f"or dtype, `{{{spec.key!r}: (shape, dtype)}}`, or use `convert`."
    )


def serialized_examples(columns: Mapping[str, Array]) -> list[bytes]:
    """Return one serialized Example for each row of `columns` (key -> array).

    float32 and float16 become a float_list, integers and booleans an int64_list, and float64,
    uint8 and uint64 a bytes_list of one piece, low byte first.
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
