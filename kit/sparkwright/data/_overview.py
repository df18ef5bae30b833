"""Data at a glance: how much there is, which arrays, how the classes are balanced."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparkwright.errors import DataError

from ._classes import class_numbers, counted
from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._reducing import reduce_all

Layout = dict[str, tuple[str, tuple[int, ...]]]
_Summary = tuple[int, Layout]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataOverview:
    """What a report tells of a data set.

    Attributes:
        rows: examples.
        partitions: examples in each partition; () where there are none.
        size_bytes: of the arrays, uncompressed.
        columns: flat name, such as "labels/labels" -> (dtype, shape of one example). A length that
            differs between pieces of the data is 0.
        classes: output -> class -> how many; only of outputs whose labels are classes.
        fingerprint: changes when the data does; None: nobody can tell.
    """

    rows: int
    partitions: tuple[int, ...] = ()
    size_bytes: int = 0
    columns: Layout = field(default_factory=Layout)
    classes: Mapping[str, Mapping[Any, int]] = field(default_factory=dict[str, dict[Any, int]])
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields; the names of classes as text."""
        return {
            "rows": self.rows,
            "partitions": list(self.partitions),
            "size_bytes": self.size_bytes,
            "columns": {
                name: {"dtype": dtype, "shape": list(shape)}
                for name, (dtype, shape) in self.columns.items()
            },
            "classes": {
                name: {str(title): count for title, count in balance.items()}
                for name, balance in self.classes.items()
            },
            "fingerprint": self.fingerprint,
        }


def overview_of(data: DataSet | DistributedDataSet) -> DataOverview:
    """Look through all of `data`: of distributed data one pass, and one more for each output.

    Example:
        >>> found = overview_of(DataSet(np.zeros((3, 2)), np.array([0, 1, 0])))
        >>> found.rows, found.size_bytes, found.classes
        (3, 72, {'labels': {0: 2, 1: 1}})
    """
    if isinstance(data, DistributedDataSet):
        return _of_distributed(data)
    classes: dict[str, Mapping[Any, int]] = {}
    for name in data.labels:
        try:
            classes[name] = counted(class_numbers(data, name)[0])
        except DataError:
            continue
    return DataOverview(
        rows=len(data), size_bytes=data.size_bytes, columns=_layout(data), classes=classes
    )


def _of_distributed(data: DistributedDataSet) -> DataOverview:
    partitions = data.partition_counts()
    found = reduce_all(data, _summarise, _merge, description="look at the data")
    size_bytes, layout = found or (0, Layout())
    classes: dict[str, Mapping[Any, int]] = {}
    for flat in layout:
        group, _, name = flat.partition("/")
        if group == "labels":
            try:
                balance = data.label_balance(name)
            except DataError:
                continue
            except Exception as error:
                # What an executor raised comes as an error of Spark.
                if "DataError" not in str(error):
                    raise
                continue
            assert isinstance(balance, dict)
            classes[name] = balance
    return DataOverview(
        rows=sum(partitions),
        partitions=tuple(partitions),
        size_bytes=size_bytes,
        columns=layout,
        classes=classes,
        fingerprint=data.fingerprint,
    )


def _layout(data: DataSet) -> Layout:
    return {name: (str(dtype), tuple(shape)) for name, (dtype, shape) in data.layout.items()}


def _summarise(data: DataSet, partition: int, first: int) -> _Summary:
    return data.size_bytes, _layout(data)


def _merge(one: _Summary, other: _Summary) -> _Summary:
    layout = {**one[1], **other[1]}
    for name in one[1].keys() & other[1].keys():
        dtype, shape = one[1][name]
        shapes = [shape, other[1][name][1]]
        if len({len(each) for each in shapes}) == 1:
            same = np.array(shapes[0]) == np.array(shapes[1])
            shape = tuple(np.where(same, shapes[0], 0).astype(int).tolist())
        layout[name] = (dtype, shape)
    return one[0] + other[0], layout
