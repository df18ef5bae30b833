"""Small contents that all workers of a ring exchange."""

import struct
from typing import Any, TypeVar

import numpy as np

from sparkwright.mesh.ring import Ring

Meta = TypeVar("Meta", bound=tuple[Any, ...])


def exchanged(ring: Ring, mine: Meta, layout: struct.Struct) -> list[Meta]:
    """All-gather a named tuple, encoded by `layout`; return the tuples by rank."""
    kind: Any = type(mine)
    contents = ring.all_gather(layout.pack(*mine), same_size=True)
    return [kind(*layout.unpack(content)) for content in contents]


def broadcast_bytes(ring: Ring, content: bytes, *, source: int) -> bytes:
    """Return `content` of rank `source`; other ranks need not know its size."""
    sizes = ring.all_gather(len(content).to_bytes(8, "little"), same_size=True)
    lengths = [int.from_bytes(raw, "little") for raw in sizes]
    buffer = np.empty(lengths[source], np.uint8)
    if ring.rank == source:
        buffer[:] = np.frombuffer(content, np.uint8)
    ring.broadcast(buffer, source=source)
    return buffer.tobytes()
