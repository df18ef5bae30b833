"""Read and write tf.train.Example with protobuf and NumPy, without TensorFlow.

References:
    TensorFlow, `tensorflow/core/example/example.proto` and `feature.proto`.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._record_examples import DTYPES, from_little, little_bytes
from .dataset import Array

# Written as bytes, because a list of numbers would be inexact or larger.
_AS_BYTES = {"float64", "uint8", "uint64"}
_LIST = """
message_type {{ name: "{0}List" field {{ name: "value" number: 1 label: LABEL_REPEATED type: {1} }} }}
"""
_KIND = """
field {{ name: "{0}_list" number: {2} label: LABEL_OPTIONAL type: TYPE_MESSAGE
         type_name: ".sparkwright.{1}List" oneof_index: 0 }}
"""
_MESSAGES = """
name: "example.proto" package: "sparkwright" syntax: "proto3"
message_type { name: "Features"
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
            type_name: ".sparkwright.Feature" } }
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".sparkwright.Features.FeatureEntry" } }
message_type { name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".sparkwright.Features" } }
"""
_LISTS = {"Bytes": "TYPE_BYTES", "Float": "TYPE_FLOAT", "Int64": "TYPE_INT64"}


@functools.cache
def _example_class() -> Any:
    """Return the class of tf.train.Example, in a separate pool; TensorFlow uses the default one."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    lists = [_LIST.format(name, kind) for name, kind in _LISTS.items()]
    kinds = [_KIND.format(name.lower(), name, i) for i, name in enumerate(_LISTS, start=1)]
    feature = f'message_type {{ name: "Feature" oneof_decl {{ name: "kind" }} {"".join(kinds)} }}'
    file: Any = descriptor_pb2.FileDescriptorProto()
    text_format.Parse("".join([_MESSAGES, *lists, feature]), file)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkwright.Example"))


class FeatureSpec(NamedTuple):
    """One feature of an Example, and its column."""

    key: str
    column: str
    shape: tuple[int, ...] | None = None  # one axis may be -1; None: (count,), or () for a label
    dtype: str | None = None  # None: float32, or int32 for integer labels
    default: Array | None = None  # None: the feature is required


def feature_specs(group: str, asked: Any) -> list[FeatureSpec]:
    """Return a spec for each requested feature.

    Example:
        >>> feature_specs("features", {"image": ((28, 28), "uint8")})[0].column
        'features/image'
    """
    named: Any = [asked] if isinstance(asked, str) else () if asked is None else asked
    try:
        named = named if isinstance(named, Mapping) else dict.fromkeys(named)
        return [feature_spec(str(key), f"{group}/{key}", kind) for key, kind in named.items()]
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"`{group}` must be names, or a dict: name -> (shape, dtype) or (shape, dtype, "
            "default). Sizes are at least 1, one may be -1 without a default; dtypes are "
            f"{sorted(DTYPES)}. Received: {group}={asked!r} ({error}). To decode texts or images, "
            "use `convert`."
        ) from None


def feature_spec(key: str, column: str, kind: Any) -> FeatureSpec:
    """Return the spec of (shape, dtype), (shape, dtype, default) or None; ValueError if invalid."""
    if kind is None:
        return FeatureSpec(key, column)
    shape, dtype, *default = kind
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    name = np.dtype(dtype).name
    free = sum(size == -1 for size in shape)
    if name not in DTYPES or free > 1 or any(size < 1 and size != -1 for size in shape):
        raise ValueError(f"not {name} of shape {shape}")
    filled = np.full(shape, *default, name) if default else None
    if filled is not None and filled.dtype.kind != "f" and (filled != default[0]).any():
        raise ValueError(f"{name} does not hold {default[0]}")
    return FeatureSpec(key, column, shape, name, filled)


def parse_example(content: bytes) -> dict[str, Any]:
    """Parse a serialized Example: key -> array of float32 or int64, or list of bytes."""
    from google.protobuf.message import DecodeError

    try:
        features = _example_class().FromString(content).features.feature
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
    """Return the columns of one example, (1, ...) each."""
    return {spec.column: _column(example, spec)[None] for spec in specs}


def _column(example: Mapping[str, Any], spec: FeatureSpec) -> Array:
    values: Any = example.get(spec.key, ())
    if not len(values):
        if spec.default is not None:
            return spec.default
        raise DataError(
            f"an example must have the feature {spec.key!r}, with a value. Received: one with "
            f"{sorted(example)[:10]}. Give a default: `{{{spec.key!r}: (shape, dtype, default)}}`."
        )
    is_label = spec.column.startswith("labels/")
    integers = isinstance(values, np.ndarray) and values.dtype == np.int64
    dtype = spec.dtype or ("int32" if is_label and integers else "float32")
    try:
        if isinstance(values, list):
            if spec.dtype is None or len(values) != 1:
                raise ValueError("bytes are the numbers of a known dtype, in one piece")
            array = from_little(values[0], dtype)
        else:
            array = values.astype(dtype)
            if array.dtype.kind != "f" and (not integers or (array != values).any()):
                raise ValueError(f"numbers must fit into {dtype}")
        if spec.shape is not None:
            return array.reshape(spec.shape)
        return array.reshape(()) if array.size == 1 and is_label else array
    except ValueError as error:
        raise DataError(
            f"the feature {spec.key!r} must have numbers of dtype {dtype} and shape {spec.shape}. "
            f"Received: {len(values)} values ({error}). Ask for another shape or dtype, "
            f"`{{{spec.key!r}: (shape, dtype)}}`, or use `convert`."
        ) from None


def serialized_examples(columns: Mapping[str, Array]) -> Iterator[bytes]:
    """Yield a serialized Example per row of `columns` (key -> array).

    float32 and float16 become a float_list, integers and booleans an int64_list. float64, uint8 and
    uint64 become a bytes_list with one little-endian element.
    """
    rows: dict[str, tuple[str, Any]] = {}
    for key, array in columns.items():
        flat = array.reshape(len(array), -1)
        if array.dtype.name in _AS_BYTES:
            rows[key] = "bytes_list", ([row.tobytes()] for row in little_bytes(array))
        elif array.dtype.kind == "f":
            rows[key] = "float_list", iter(flat.astype(np.float32).tolist())
        else:
            rows[key] = "int64_list", iter(flat.astype(np.int64).tolist())
    for _ in range(len(next(iter(columns.values())))):
        example = _example_class()()
        for key, (kind, values) in rows.items():
            getattr(example.features.feature[key], kind).value.extend(next(values))
        yield example.SerializeToString(deterministic=True)
