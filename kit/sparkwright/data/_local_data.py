"""Examples read in the driver process, without Spark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from sparkwright.errors import DataError

from ._skipped import Skipped
from .dataset import DataSet
from .pieces import SkipLog


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalData:
    """The result of `read_images` and `read_csv_sequences`.

    Attributes:
        data: the examples.
        skipped: counts and first messages of the skipped items.
        class_names: output name -> class names.
    """

    data: DataSet
    skipped: Skipped
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    @classmethod
    def of(cls, found: Iterable[DataSet], log: SkipLog, source: str, **known: Any) -> Self:
        """Concatenate `found`; raise DataError, which names `source`, if it is empty."""
        if parts := list(found):
            return cls(data=DataSet.concatenate(parts), skipped=log.skipped, **known)
        raise DataError(
            f"the data must have at least one example. Received: none in {source}; "
            f"{str(log.skipped).splitlines()[0]}."
        )
