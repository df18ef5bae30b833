"""Wire format of a message: a fixed header, JSON fields, then raw bytes.

Decoding never unpickles, and checks both lengths before allocating memory.

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
    """One message: its kind, JSON fields and raw payload."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    payload: bytes | bytearray | memoryview = b""


def encode_head(kind: str, fields: dict[str, Any], payload_bytes: int) -> bytes:
    """Encode the header and fields, which precede the payload on the wire."""
    body = json.dumps([kind, fields], separators=(",", ":")).encode()
    return HEADER.pack(_MAGIC, len(body), payload_bytes) + body


def decode_header(
    header: bytes | bytearray, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES
) -> tuple[int, int]:
    """Decode a header into (length of the fields, length of the payload), in bytes."""
    magic, fields_bytes, payload_bytes = HEADER.unpack(header)
    if magic != _MAGIC:
        raise NetworkError(f"a message must start with {_MAGIC!r}. Received: {magic!r}.")
    if fields_bytes > MAX_FIELDS_BYTES or payload_bytes > max_payload_bytes:
        raise NetworkError(
            f"a message may have at most {MAX_FIELDS_BYTES} bytes of fields and "
            f"{max_payload_bytes} bytes of payload. Received: {fields_bytes} and {payload_bytes}."
        )
    return fields_bytes, payload_bytes


def decode_fields(body: bytes | bytearray) -> tuple[str, dict[str, Any]]:
    """Decode the kind and fields of a message."""
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NetworkError(f"a message's fields must be JSON: {error}.") from None
    match content:
        case [str(kind), dict(fields)]:
            return kind, fields
        case _:
            raise NetworkError(
                "a message's fields must be a JSON list of a string (the kind) and an object. "
                f"Received: {bytes(body[:80])!r}."
            )
