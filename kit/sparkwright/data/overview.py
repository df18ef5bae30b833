"""Overview of a data set: sizes, arrays and class balance."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkwright.errors import DataError

from ._distributed import DistributedDataSet
from ._manifest import Columns, columns_of
from .classes import add_counts, class_counts, named_counts
from .dataset import DataSet

# Class -> number of examples; None: the labels are not classes.
_Classes = dict[str, dict[int, int] | None]
_Summary = tuple[int, Columns, _Classes]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataOverview:
    """The overview of a data set in a report.

    Attributes:
        rows: number of examples.
        partitions: number of examples in each partition; () for data without partitions.
        size_bytes: size of the arrays, uncompressed.
        columns: flat name, such as "labels/labels" -> (dtype, shape of one example). Axes of
            varying length are 0.
        classes: output -> class -> number of examples; only for outputs with class labels.
        fingerprint: changes when the data does; None: unknown.
    """

    rows: int
    partitions: tuple[int, ...] = ()
    size_bytes: int = 0
    columns: Columns = field(default_factory=dict[str, tuple[str, tuple[int, ...]]])
    classes: Mapping[str, Mapping[Any, int]] = field(default_factory=dict[str, dict[Any, int]])
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with classes as text."""
        return asdict(self) | {
            "partitions": list(self.partitions),
            "columns": {
                name: {"dtype": dtype, "shape": list(shape)}
                for name, (dtype, shape) in self.columns.items()
            },
            "classes": {
                name: {str(title): count for title, count in balance.items()}
                for name, balance in self.classes.items()
            },
        }


def overview_of(data: DataSet | DistributedDataSet) -> DataOverview:
    """Summarize `data` in one pass.

    Example:
        >>> import numpy as np
        >>> found = overview_of(DataSet(np.zeros((3, 2)), np.array([0, 1, 0])))
        >>> found.rows, found.size_bytes, found.classes
        (3, 72, {'labels': {0: 2, 1: 1}})
    """
    names: Mapping[str, Sequence[str]] = {}
    known: dict[str, Any] = {"rows": len(data)} if isinstance(data, DataSet) else {}
    if isinstance(data, DistributedDataSet):
        partitions, names = data.partition_counts(), data.class_names
        known = {"rows": sum(partitions), "partitions": partitions}
        known["fingerprint"] = data.fingerprint
    found = data.reduce_chunks(_summarize, _merge, description="summarize the data")
    size_bytes, columns, counts = found or (0, {}, {})
    classes = {
        name: named_counts(each, each, names.get(name))
        for name, each in counts.items()
        if each is not None
    }
    return DataOverview(size_bytes=size_bytes, columns=columns, classes=classes, **known)


def _summarize(data: DataSet, partition: int, first: int) -> _Summary:
    classes: _Classes = {}
    for name in data.labels:
        try:
            classes[name] = class_counts(data, name)
        except DataError:
            classes[name] = None
    return data.size_bytes, columns_of(data.layout), classes


def _merge(one: _Summary, other: _Summary) -> _Summary:
    layout = {**one[1], **other[1]}
    for name in one[1].keys() & other[1].keys():
        (dtype, shape), (_, second) = one[1][name], other[1][name]
        if len(shape) == len(second):
            shape = tuple(a if a == b else 0 for a, b in zip(shape, second, strict=True))
        layout[name] = (dtype, shape)
    return one[0] + other[0], layout, _merged_classes(one[2], other[2])


def _merged_classes(one: _Classes, other: _Classes) -> _Classes:
    merged: _Classes = {**one, **other}
    for name in one.keys() & other.keys():
        first, second = one[name], other[name]
        merged[name] = None
        if first is not None and second is not None:
            try:
                merged[name] = add_counts(first, second)
            except DataError:  # too many distinct numbers for classes
                continue
    return merged
