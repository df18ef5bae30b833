"""Read and write tf.train.Example with protobuf and NumPy, without TensorFlow.

References:
    TensorFlow, `tensorflow/core/example/example.proto` and `feature.proto`.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkwright.errors import DataError

from ._record_examples import each_row, from_little, little_bytes
from .dataset import Array

# Written as bytes, because a list of numbers would be inexact or larger.
_AS_BYTES = {"float64", "uint8", "uint64"}
_LIST = """
message_type {{ name: "{0}List"
  field {{ name: "value" number: 1 label: LABEL_REPEATED type: {1} }} }}
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


@functools.cache
def _example_class(floats: str = "TYPE_FLOAT") -> Any:
    """Return the class of tf.train.Example, in a separate pool; TensorFlow uses the default one."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    # "TYPE_BYTES" encodes a list of floats alike, as one element, which is written faster.
    types = {"Bytes": "TYPE_BYTES", "Float": floats, "Int64": "TYPE_INT64"}
    lists = [_LIST.format(name, kind) for name, kind in types.items()]
    kinds = [_KIND.format(name.lower(), name, i) for i, name in enumerate(types, start=1)]
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
    """Return the columns of one example, without the axis of the examples."""
    return {spec.column: _column(example.get(spec.key, ()), spec) for spec in specs}


def _column(values: Any, spec: FeatureSpec) -> Array:
    is_label = spec.column.startswith("labels/")
    integers = isinstance(values, np.ndarray) and values.dtype == np.int64
    dtype = spec.dtype or ("int32" if is_label and integers else "float32")
    try:
        if not len(values):
            raise ValueError("none")
        if isinstance(values, list):
            if spec.dtype is None or len(values) != 1:
                raise ValueError("bytes")
            array = from_little(values[0], dtype)
        else:
            array = values.astype(dtype)
            if array.dtype.kind != "f" and (not integers or (array != values).any()):
                raise ValueError("other numbers")
        if spec.shape is not None:
            return array.reshape(spec.shape)
        return array.reshape(()) if array.size == 1 and is_label else array
    except ValueError as error:
        raise DataError(
            f"the feature {spec.key!r} must have numbers of dtype {dtype} and shape {spec.shape}. "
            f"Received: {len(values)} values ({error}). Use `convert` for missing features, texts, "
            "images, and other shapes and dtypes."
        ) from None


def serialized_examples(columns: Mapping[str, Array]) -> Iterator[bytes]:
    """Yield a serialized Example per row of `columns` (key -> array)."""
    rows: dict[str, tuple[str, Any]] = {}
    for key, array in columns.items():
        flat = array.reshape(len(array), -1)
        if array.dtype.name in _AS_BYTES:
            rows[key] = "bytes_list", ([row] for row in each_row(little_bytes(array)))
        elif array.dtype.kind == "f":
            floats = little_bytes(flat.astype(np.float32))
            rows[key] = "float_list", ([row] for row in each_row(floats))
        else:
            rows[key] = "int64_list", iter(flat.astype(np.int64).tolist())
    for _ in range(len(next(iter(columns.values())))):
        example = _example_class("TYPE_BYTES")()
        for key, (kind, values) in rows.items():
            getattr(example.features.feature[key], kind).value.extend(next(values))
        yield example.SerializeToString(deterministic=True)
