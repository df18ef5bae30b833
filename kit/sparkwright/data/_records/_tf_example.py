"""tf.train.Example without TensorFlow: its messages, and the arrays that lie in them.

References:
    TensorFlow, `tensorflow/core/example/feature.proto` and `example.proto`.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkwright.data._dataset import Array
from sparkwright.errors import ConfigurationError, DataError

_DTYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
}
# No list of numbers holds these exactly, or none as small as their bytes.
_AS_BYTES = {"float64", "uint8", "uint64"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureSpec:
    """One feature of an Example, and the column that it becomes.

    Attributes:
        key: its name in the Example.
        column: flat name of the column.
        shape: of one example, one axis may be -1; None: (count,), of a single label ().
        dtype: NumPy's name; None: float32, of whole numbers among labels int32.
        default: the value where the feature is missing; None: that is an error.
    """

    key: str
    column: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    default: float | None = None

    def __post_init__(self) -> None:
        if self.shape is not None and not (
            all(isinstance(size, int) and (size == -1 or size >= 1) for size in self.shape)  # pyright: ignore[reportUnnecessaryIsInstance]
            and self.shape.count(-1) <= 1
        ):
            raise ConfigurationError(
                "the shape of a feature must be whole numbers of at least 1, one may be -1. "
                f"Received: {self.key!r} with shape={self.shape!r}."
            )
        if self.dtype is not None and self.dtype not in _DTYPES:
            raise ConfigurationError(
                f"the dtype of a feature must be one of {sorted(_DTYPES)}. "
                f"Received: {self.key!r} with dtype={self.dtype!r}. "
                "To decode texts or images, use `convert`."
            )
        if self.default is not None and (self.shape is None or -1 in self.shape):
            raise ConfigurationError(
                "a feature with a default must have a shape without -1. "
                f"Received: {self.key!r} with shape={self.shape!r}, default={self.default!r}."
            )
        if self.default is not None and not _fits(self.default, self.dtype or "float32"):
            raise ConfigurationError(
                f"the default of a feature must be a number that its dtype holds. Received: "
                f"{self.key!r} with dtype={self.dtype!r}, default={self.default!r}."
            )


def _fits(default: Any, dtype: str) -> bool:
    """Whether `dtype` holds `default`: whole numbers exactly, others within its range."""
    kind = np.dtype(dtype)
    try:
        value = float(default)
        if kind.kind == "f":
            return not math.isfinite(value) or abs(value) <= float(np.finfo(kind).max)
        lowest, highest = (
            (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        )
        return value == int(default) and lowest <= int(default) <= highest
    except (TypeError, ValueError, OverflowError):
        return False


def feature_specs(group: str, asked: Any) -> tuple[FeatureSpec, ...]:
    """What a user asks for, one spec for each feature.

    Args:
        group: "features" or "labels".
        asked: a key, several, or key -> (shape, dtype) or (shape, dtype, default); None for none.

    Raises:
        ConfigurationError: if it is something else.

    Example:
        >>> feature_specs("features", {"image": ((28, 28), "uint8")})[0].column
        'features/image'
    """
    if asked is None:
        return ()
    if isinstance(asked, str):
        asked = [asked]
    if isinstance(asked, Mapping):
        pairs: Any = asked.items()
    elif isinstance(asked, Sequence):
        pairs = [(key, None) for key in asked]
    else:
        pairs = [(None, asked)]
    specs: list[FeatureSpec] = []
    for key, kind in pairs:
        more: dict[str, Any] = {}
        match kind:
            case None:
                pass
            case [int() | tuple() | list() as shape, dtype, *rest] if len(rest) <= 1:
                try:
                    more["dtype"] = np.dtype(dtype).name
                except TypeError:
                    more["dtype"] = str(dtype)
                more["shape"] = (shape,) if isinstance(shape, int) else tuple(shape)
                more["default"] = rest[0] if rest else None
            case _:
                key = None
        if not isinstance(key, str):
            raise ConfigurationError(
                f"`{group}` must be names, or a dict: name -> (shape, dtype) or (shape, dtype, "
                f"default). Received: {group}={asked!r}."
            )
        specs.append(FeatureSpec(key=key, column=f"{group}/{key}", **more))
    return tuple(specs)


def parse_example(content: bytes) -> Any:
    """The features of a serialised Example: key -> tf.train.Feature.

    Raises:
        DataError: if `content` is none.
    """
    from google.protobuf.message import DecodeError

    try:
        return _example_class(floats_as_bytes=False).FromString(content).features.feature
    except DecodeError as error:
        raise DataError(
            f"a record must be a serialised tf.train.Example. Received: {content[:20]!r}… "
            f"({error})."
        ) from None


def columns_of(features: Any, specs: Sequence[FeatureSpec]) -> dict[str, Array]:
    """The columns of one example, without the axis of the examples.

    Raises:
        DataError: if a feature is missing, or does not fit its spec, naming it.
    """
    return {spec.column: _column(features, spec) for spec in specs}


def values_of(features: Any) -> dict[str, Any]:
    """All features as a function of the user's gets them.

    Returns:
        Key -> (count,) float32 or int64 array, or a list of bytes; none for an empty feature.
    """
    found: dict[str, Any] = {}
    for key, feature in features.items():
        match feature.WhichOneof("kind"):
            case "float_list":
                found[key] = np.array(feature.float_list.value, np.float32)
            case "int64_list":
                found[key] = np.array(feature.int64_list.value, np.int64)
            case "bytes_list":
                found[key] = list(feature.bytes_list.value)
            case _:
                pass
    return found


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
    if kind == "float_list":
        array = _floats(values, spec)
    elif kind == "int64_list":
        array = _whole_numbers(values, spec)
    else:
        array = _from_bytes(values, spec)
    shape = spec.shape
    if shape is None:
        single = array.size == 1 and spec.column.startswith("labels/")
        return array.reshape(()) if single else array
    known_size = math.prod(size for size in shape if size != -1)
    if array.size % known_size or (-1 not in shape and array.size != known_size):
        raise DataError(
            f"the feature {spec.key!r} must have as many values as its shape {shape} says. "
            f"Received: {array.size}."
        )
    return array.reshape(shape)


def _floats(values: Any, spec: FeatureSpec) -> Array:
    dtype = np.dtype(spec.dtype or "float32")
    if dtype.kind != "f":
        raise _wrong_kind(spec, "floats")
    return np.array(values, np.float32).astype(dtype, copy=False)


def _whole_numbers(values: Any, spec: FeatureSpec) -> Array:
    label = spec.column.startswith("labels/")
    dtype = np.dtype(spec.dtype or ("int32" if label else "float32"))
    numbers = np.array(values, np.int64)
    found = numbers.astype(dtype, copy=False)
    if dtype.kind in "biu" and dtype.itemsize < 8 and not np.array_equal(found, numbers):
        raise _unfit(spec, numbers, dtype)
    if dtype == np.uint64 and int(numbers.min()) < 0:
        raise _unfit(spec, numbers, dtype)
    return found


def _unfit(spec: FeatureSpec, numbers: Array, dtype: np.dtype[Any]) -> DataError:
    return DataError(
        f"the feature {spec.key!r} must have numbers that fit into {dtype}. "
        f"Received: numbers from {numbers.min()} to {numbers.max()}. "
        f"Ask for another dtype: `{{{spec.key!r}: (shape, dtype)}}`."
    )


def _from_bytes(values: Any, spec: FeatureSpec) -> Array:
    if spec.dtype is None:
        raise _wrong_kind(spec, "bytes")
    little = np.dtype(spec.dtype).newbyteorder("<")
    if len(values) != 1 or len(values[0]) % little.itemsize or not values[0]:
        raise DataError(
            f"the feature {spec.key!r} must be the bytes of {spec.dtype} numbers in one piece. "
            f"Received: {len(values)} pieces, the first of {len(values[0])} bytes."
        )
    array = np.frombuffer(values[0], np.uint8 if spec.dtype == "bool" else little)
    return array != 0 if spec.dtype == "bool" else array.astype(spec.dtype, copy=False)


def _wrong_kind(spec: FeatureSpec, found: str) -> DataError:
    return DataError(
        f"the feature {spec.key!r} must have values that become {spec.dtype or 'numbers'}. "
        f"Received: {found}. Ask for another dtype, `{{{spec.key!r}: (shape, dtype)}}`, or use "
        "`convert`."
    )


def key_of(column: str) -> str:
    """The key under which a column is written: features and labels without their group.

    Example:
        >>> key_of("features/image"), key_of("features_masks/image")
        ('image', 'features_masks/image')
    """
    group, _, name = column.partition("/")
    return name if group in ("features", "labels") else column


def serialised_examples(columns: Mapping[str, Array]) -> list[bytes]:
    """One Example for each row of `columns` (key -> array).

    float32 and float16 become a float_list, whole numbers and booleans an int64_list, and float64,
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


@functools.cache
def _example_class(*, floats_as_bytes: bool) -> Any:
    """The class of tf.train.Example, in a pool of its own: TensorFlow owns the usual one.

    Args:
        floats_as_bytes: whether the values of a FloatList are one byte string. Packed floats are
            float32 numbers one after another, so it is the same on the wire, and ten times as
            fast to write. Not for reading: floats need not be packed.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="example.proto", package="sparkwright", syntax="proto3"
    )
    many: Any = {"name": "value", "number": 1, "label": field.LABEL_REPEATED}
    for name, kind in (
        ("BytesList", field.TYPE_BYTES),
        ("FloatList", field.TYPE_BYTES if floats_as_bytes else field.TYPE_FLOAT),
        ("Int64List", field.TYPE_INT64),
    ):
        file.message_type.add(name=name).field.add(**many, type=kind)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes", "float", "int64"), start=1):
        feature.field.add(
            name=f"{name}_list",
            number=number,
            label=field.LABEL_OPTIONAL,
            type=field.TYPE_MESSAGE,
            type_name=f".sparkwright.{name.capitalize()}List",
            oneof_index=0,
        )
    features = file.message_type.add(name="Features")
    features.field.add(
        name="feature",
        number=1,
        label=field.LABEL_REPEATED,
        type=field.TYPE_MESSAGE,
        type_name=".sparkwright.Features.FeatureEntry",
    )
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    one: Any = {"label": field.LABEL_OPTIONAL}
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, **one)
    entry.field.add(
        name="value", number=2, type=field.TYPE_MESSAGE, type_name=".sparkwright.Feature", **one
    )
    example = file.message_type.add(name="Example")
    example.field.add(
        name="features",
        number=1,
        type=field.TYPE_MESSAGE,
        type_name=".sparkwright.Features",
        **one,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sparkwright.Example"))
