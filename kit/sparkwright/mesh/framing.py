"""How a message lies on the wire: a fixed header, JSON fields, then raw bytes.

Nothing is unpickled, and both lengths are checked before anything is allocated.

    header  = magic "SWR1" | length of the fields, uint32 | length of the payload, uint64
    message = header | [kind, fields] as JSON | payload (arrays, one after another)
"""

import json
import struct
from dataclasses import dataclass, field
from typing import Any

from sparkwright.errors import NetworkError

HEADER = struct.Struct("<4sIQ")
MAX_FIELDS_BYTES = 16 << 20
MAX_PAYLOAD_BYTES = 1 << 40
_MAGIC = b"SWR1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message: what it is, its fields, and bytes that belong to it."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    payload: bytes | bytearray | memoryview = b""


def encode_head(kind: str, fields: dict[str, Any], payload_bytes: int) -> bytes:
    """Header and fields, ready to send before the payload."""
    body = json.dumps([kind, fields], separators=(",", ":")).encode()
    return HEADER.pack(_MAGIC, len(body), payload_bytes) + body


def decode_header(
    header: bytes | bytearray, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES
) -> tuple[int, int]:
    """(bytes of fields, bytes of payload) that follow `header`.

    Raises:
        NetworkError: if the header is none of ours or announces too much.
    """
    magic, fields_bytes, payload_bytes = HEADER.unpack(header)
    if magic != _MAGIC:
        raise NetworkError(f"a message must start with {_MAGIC!r}. Received: {magic!r}.")
    if fields_bytes > MAX_FIELDS_BYTES or payload_bytes > max_payload_bytes:
        raise NetworkError(
            f"a message may have {MAX_FIELDS_BYTES} bytes of fields and {max_payload_bytes} bytes "
            f"of payload here. Received: {fields_bytes} and {payload_bytes}."
        )
    return fields_bytes, payload_bytes


def decode_fields(body: bytes | bytearray) -> tuple[str, dict[str, Any]]:
    """(kind, fields) of a message.

    Raises:
        NetworkError: if `body` is not JSON of a text and an object.
    """
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NetworkError(f"a message's fields must be JSON: {error}.") from None
    match content:
        case [str(kind), dict(fields)]:
            return kind, fields
        case _:
            raise NetworkError(
                "a message's fields must be a list of its kind, a text, and an object. "
                f"Received: {bytes(body[:80])!r}."
            )
