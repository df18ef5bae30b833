"""Serialization of values in messages of trainers and workers: JSON plus raw bytes.

    payload = JSON text | pieces, each padded to 16 bytes; their sizes are in the message's fields

Numbers, strings, None and lists are encoded directly. Any other value is an object with one key:

    tuple  [value, ...]
    map    [[key, value], ...]
    bytes  number of the piece
    array  [number of the piece, dtype, shape]
    texts  [start and end offsets, number of the piece of UTF-8], an array of `str`
    json   number of a piece of JSON text
    data   [module, class, {field: value}], a data class or named tuple of the engine
    own    number of one of the user's own objects

The user's own objects, such as hooks and the functions of a custom evaluation, form one piece,
serialized by cloudpickle as Spark closures are. Only requests may contain it, and a trainer
unpickles it only from a task that has proved the application's secret.
"""

import dataclasses
import importlib
import json
import pickle
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

import numpy as np

from sparkwright.data.texts import from_utf8, is_text, to_utf8
from sparkwright.errors import NetworkError
from sparkwright.mesh.framing import Message

_PLAIN = frozenset({bool, int, float, str, type(None)})
_ALIGNED = 16
_ENGINE = __name__.partition(".")[0]
_KINDS = "biufcSUmM"


def pack(value: Any, *, own_code: bool) -> tuple[dict[str, Any], list[Any]]:
    """Serialize `value` to the (fields, payload) of a message; see `Connection.send`."""
    packer = _Packer()
    packed = packer.packed(value)
    code = None
    if packer.own:
        if not own_code:
            kinds = sorted({type(each).__name__ for each in packer.own})
            raise TypeError(
                f"an answer may hold the engine's own values only. Received: {', '.join(kinds)}."
            )
        import cloudpickle

        code = packer.add(cloudpickle.dumps(packer.own))
    pieces = [json.dumps([packed, code], separators=(",", ":")).encode(), *packer.pieces]
    payload: list[Any] = []
    for piece in pieces:
        payload += [piece, bytes(-len(piece) % _ALIGNED)]
    return {"sizes": [len(piece) for piece in pieces]}, payload


def unpack(message: Message, *, own_code: bool) -> Any:
    """Deserialize a message; arrays are views of its payload."""
    try:
        pieces, view, start = list[memoryview](), memoryview(message.payload), 0
        for size in message.fields["sizes"]:
            if not 0 <= size <= len(view) - start:
                _refuse(f"a piece of {size} bytes in {len(view)}")
            pieces.append(view[start : start + size])
            start += size + -size % _ALIGNED
        packed, code = json.loads(bytes(pieces[0]))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        _refuse(str(error))
    own: list[Any] = []
    if code is not None:
        if not own_code:
            _refuse("pickled objects, which only a request may hold")
        own = pickle.loads(pieces[code + 1])
    try:
        return _Unpacker(pieces[1:], own).unpacked(packed)
    except (ValueError, TypeError, LookupError, RecursionError, ImportError) as error:
        _refuse(str(error))


def _refuse(received: str) -> NoReturn:
    raise NetworkError(f"a message must be packed values. Received: {received}.")


class _Packer:
    """Serialize values; collect pieces and the user's own objects."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.own: list[Any] = []

    def add(self, piece: Any) -> int:
        """Add a piece and return its number."""
        self.pieces.append(piece)
        return len(self.pieces) - 1

    def packed(self, value: Any) -> Any:
        """Convert `value` to its JSON form."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return self.packed(value.item())
        if isinstance(value, np.ndarray) and is_text(value):
            edges, content = to_utf8(value)
            return {"texts": [self._array(edges), self.add(content)]}
        if isinstance(value, np.ndarray):
            return {"array": self._array(value)}
        if type(value) is list:
            is_plain = set(map(type, value)) <= _PLAIN
            return value if is_plain else [self.packed(each) for each in value]
        if type(value) is tuple:
            return {"tuple": [self.packed(each) for each in value]}
        if isinstance(value, bytes | bytearray | memoryview):
            return {"bytes": self.add(value)}
        if (names := _fields_of(type(value))) is not None:
            kind = type(value)
            fields = {name: self._field(getattr(value, name), names[name]) for name in names}
            return {"data": [kind.__module__, kind.__qualname__, fields]}
        if isinstance(value, Mapping):
            return {"map": [[self.packed(key), self.packed(each)] for key, each in value.items()]}
        self.own.append(value)
        return {"own": len(self.own) - 1}

    def _field(self, value: Any, is_json: bool) -> Any:
        if is_json and value is not None:
            return {"json": self.add(json.dumps(value, separators=(",", ":")).encode())}
        return self.packed(value)

    def _array(self, array: np.ndarray[Any, Any]) -> list[Any]:
        if array.dtype.kind not in _KINDS:
            raise TypeError(
                f"arrays must be of numbers, texts or times. Received: dtype={array.dtype}."
            )
        flat = np.ascontiguousarray(array).reshape(-1)
        piece = flat.view(np.uint8).data if flat.nbytes else b""
        return [self.add(piece), array.dtype.str, list(array.shape)]


class _Unpacker:
    """The inverse of `_Packer`."""

    def __init__(self, pieces: list[memoryview], own: list[Any]) -> None:
        self._pieces, self._own = pieces, own

    def unpacked(self, packed: Any) -> Any:
        """Convert a JSON form to its value."""
        if isinstance(packed, list):
            is_plain = set(map(type, packed)) <= _PLAIN
            return packed if is_plain else [self.unpacked(each) for each in packed]
        if not isinstance(packed, dict):
            return packed
        ((tag, held),) = packed.items()
        match tag:
            case "tuple":
                return tuple(map(self.unpacked, held))
            case "map":
                return {self.unpacked(key): self.unpacked(each) for key, each in held}
            case "bytes":
                return bytes(self._pieces[held])
            case "array":
                return self._array(*held)
            case "texts":
                edges, content = held
                return from_utf8(self._array(*edges), self._pieces[content])
            case "json":
                return json.loads(bytes(self._pieces[held]))
            case "data":
                return self._data(*held)
            case "own":
                return self._own[held]
            case _:
                raise ValueError(f"the tag {tag!r}")

    def _array(self, number: int, dtype: str, shape: list[int]) -> np.ndarray[Any, Any]:
        return np.frombuffer(self._pieces[number], _dtype(dtype)).reshape(shape)

    def _data(self, module: str, name: str, fields: dict[str, Any]) -> Any:
        if module.partition(".")[0] != _ENGINE:
            raise ValueError(f"a value of {module}")
        kind: Any = getattr(importlib.import_module(module), name)
        names = _fields_of(kind) if isinstance(kind, type) else None
        if names is None or set(names) != set(fields):
            raise ValueError(f"a {module}.{name} of {sorted(fields)}")
        values = {field: self.unpacked(each) for field, each in fields.items()}
        if issubclass(kind, tuple):
            return kind(**values)
        # Restore fields directly, without the checks and copies of `__init__`.
        made = object.__new__(kind)
        for field, value in values.items():
            object.__setattr__(made, field, value)
        return made


def _dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS:
        raise ValueError(f"an array of dtype {name}")
    return dtype


@cache
def _fields_of(kind: type) -> dict[str, bool] | None:
    """Return field -> whether it is sent as JSON text; None for types of other packages."""
    if kind.__module__.partition(".")[0] != _ENGINE:
        return None
    if dataclasses.is_dataclass(kind):
        found = dataclasses.fields(kind)
        return {field.name: bool(field.metadata.get("json")) for field in found}
    names: Any = getattr(kind, "_fields", None)
    return dict.fromkeys(names, False) if issubclass(kind, tuple) and names else None
