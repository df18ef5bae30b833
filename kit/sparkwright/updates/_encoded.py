"""A message and what it carries, as the encoder hands it out; pure."""

from dataclasses import dataclass
from typing import NamedTuple

from ._format import HEADER_WORDS, Words


class EncodedSegment(NamedTuple):
    """What one segment of a message carries.

    Attributes:
        size: elements that it covers, N.
        threshold: t, as float32 rounds it.
        selected: elements that it changes.
        dense: whether it is a bitmap.
        length: its words, header included.
    """

    size: int
    threshold: float
    selected: int
    dense: bool
    length: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Encoded:
    """A message, ready to be sent.

    Attributes:
        words: (L,) int32, the message.
        segments: what each of its segments carries.
    """

    words: Words
    segments: tuple[EncodedSegment, ...]

    @property
    def size(self) -> int:
        """Elements of the vector, N."""
        return sum(segment.size for segment in self.segments)

    @property
    def selected(self) -> int:
        """Elements that the message changes; 0 if there is nothing to send."""
        return sum(segment.selected for segment in self.segments)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The threshold of each segment."""
        return tuple(segment.threshold for segment in self.segments)

    @property
    def dense(self) -> bool:
        """Whether any segment is a bitmap."""
        return any(segment.dense for segment in self.segments)

    @property
    def size_bytes(self) -> int:
        """Bytes of the message."""
        return self.words.nbytes

    @property
    def sparsity(self) -> float:
        """Words of the message / N, headers included, as DL4J has it; 0 with nothing selected.

        More than 1/16 for a bitmap.
        """
        return self.words.size / self.size if self.selected else 0.0

    @property
    def payload_sparsity(self) -> float:
        """Words of the message / N, without headers; more than 1/16 for a bitmap.

        In a small network the headers alone exceed any sensible target of `sparsity`.
        """
        words = self.words.size - HEADER_WORDS * len(self.segments)
        return words / self.size if self.size else 0.0

    def to_bytes(self) -> bytes:
        """The message as little-endian bytes."""
        return self.words.tobytes()
