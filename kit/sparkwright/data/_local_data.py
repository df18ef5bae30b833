"""Examples that were read in this process, without Spark."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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


def gathered(found: Iterable[DataSet], log: SkipLog, source: str) -> DataSet:
    """All examples of `found` as one DataSet.

    Raises:
        DataError: if there are none at `source`.
    """
    parts = list(found)
    if parts:
        return DataSet.concatenate(parts)
    raise DataError(
        f"there must be at least one example. Received: none in {source}; "
        f"{str(log.skipped).splitlines()[0]}."
    )
