"""Examples that were read in this process, without Spark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from sparkwright.errors import DataError

from ._skipped import Skipped
from .dataset import DataSet
from .pieces import SkipLog


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalData:
    """What `read_images` and `read_csv_sequences` read.

    Attributes:
        data: the examples.
        skipped: what was left out.
        class_names: output name -> names of its classes.
    """

    data: DataSet
    skipped: Skipped
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    @classmethod
    def of(cls, found: Iterable[DataSet], log: SkipLog, source: str, **known: Any) -> Self:
        """All examples of `found`; DataError if there are none at `source`."""
        if parts := list(found):
            return cls(data=DataSet.concatenate(parts), skipped=log.skipped, **known)
        raise DataError(
            f"there must be at least one example. Received: none in {source}; "
            f"{str(log.skipped).splitlines()[0]}."
        )
