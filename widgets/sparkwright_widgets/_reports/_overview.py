"""Overview of a data set: sizes, arrays and class balance, as JSON values."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.data import DataSet, DistributedDataSet
from sparkwright.data.classes import add_counts, class_counts, named_counts
from sparkwright.errors import DataError

# Class -> number of examples; None: the labels are not classes.
_Classes = dict[str, dict[int, int] | None]
_Summary = tuple[int, dict[str, dict[str, Any]], _Classes]


def overview_of(data: DataSet | DistributedDataSet) -> dict[str, Any]:
    """Summarize `data` in one pass; axes of varying length are 0.

    Example:
        >>> import numpy as np
        >>> found = overview_of(DataSet(np.zeros((3, 2)), np.array([0, 1, 0])))
        >>> found["rows"], found["size_bytes"], found["classes"]
        (3, 72, {'labels': {'0': 2, '1': 1}})
    """

    # Executors, which have no widgets, get nested functions by value.
    def summarize(chunk: DataSet, partition: int, first: int) -> _Summary:
        classes: _Classes = {}
        for name in chunk.labels:
            try:
                classes[name] = class_counts(chunk, name)
            except DataError:
                classes[name] = None
        columns = {n: {"dtype": str(d), "shape": list(s)} for n, (d, s) in chunk.layout.items()}
        return chunk.size_bytes, columns, classes

    def merge(one: _Summary, other: _Summary) -> _Summary:
        columns, classes = {**one[1], **other[1]}, {**one[2], **other[2]}
        for name in one[1].keys() & other[1].keys():
            shape, second = one[1][name]["shape"], other[1][name]["shape"]
            if len(shape) == len(second):
                shape = [a if a == b else 0 for a, b in zip(shape, second, strict=True)]
            columns[name] = {"dtype": one[1][name]["dtype"], "shape": shape}
        for name in one[2].keys() & other[2].keys():
            a, b = one[2][name], other[2][name]
            try:
                classes[name] = None if a is None or b is None else add_counts(a, b)
            except DataError:  # too many distinct numbers for classes
                classes[name] = None
        return one[0] + other[0], columns, classes

    found = data.reduce_chunks(summarize, merge, description="summarize the data")
    size_bytes, columns, counts = found or (0, {}, {})
    is_local = isinstance(data, DataSet)
    partitions = () if is_local else data.partition_counts()
    names: Mapping[str, Sequence[str]] = {} if is_local else data.class_names
    return {
        "rows": len(data) if is_local else sum(partitions),
        "partitions": list(partitions),
        "size_bytes": size_bytes,
        "columns": columns,
        "classes": {
            name: {str(n): count for n, count in named_counts(of, of, names.get(name)).items()}
            for name, of in counts.items()
            if of is not None
        },
        "fingerprint": None if is_local else data.fingerprint,
    }
