"""Bytes of the driver that tasks read, sent in parts.

Spark keeps the elements of `parallelize` in the heap of the driver's JVM and sends them with their
tasks, of at most 128 MiB. A broadcast may move to disk, but while Spark cuts it into blocks, its
heap holds the whole. So nothing large is one element or one broadcast.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PART_BYTES = 16 << 20


@dataclass(frozen=True)
class SharedBytes:
    """Bytes in several broadcasts."""

    parts: tuple[Any, ...] = field(repr=False)

    @classmethod
    def of(cls, context: Any, content: bytes) -> "SharedBytes":
        """Broadcast `content` with a SparkContext or a `ConnectContext`."""
        starts = range(0, len(content), PART_BYTES)
        return cls(tuple(context.broadcast(content[at : at + PART_BYTES]) for at in starts))

    def __iter__(self) -> Iterator[bytes]:
        """The parts, in a task."""
        return (part.value for part in self.parts)

    def destroy(self) -> None:
        """Remove the bytes from executors and driver."""
        for part in self.parts:
            part.destroy()
