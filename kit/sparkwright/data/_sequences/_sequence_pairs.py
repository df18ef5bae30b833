"""Which file of labels belongs to which file of features, and in which order they come."""

import re
from collections.abc import Iterable, Sequence

from sparkwright.data._tables._csv_format import compression_of
from sparkwright.errors import DataError
from sparkwright.storage._listing import StoredFile


def in_natural_order(files: Iterable[StoredFile]) -> list[StoredFile]:
    """`files` by URL, `2.csv` before `10.csv`."""
    return sorted(files, key=lambda file: natural_key(file.url))


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which names sort as people count.

    Example:
        >>> sorted(["x10", "x9", "x"], key=natural_key)
        ['x', 'x9', 'x10']
    """
    parts = re.split(r"([0-9]+)", text)
    return tuple((0, int(p), p) if p.isdecimal() else (1, 0, p) for p in parts if p)


def paired(
    files: Sequence[StoredFile], label_files: Sequence[StoredFile] | None, pair_by: str
) -> list[tuple[StoredFile, StoredFile | None]]:
    """Each file of features with its labels.

    Raises:
        DataError: if one has no counterpart, or if a name is there twice; naming the first.
    """
    if label_files is None:
        return [(file, None) for file in files]
    if pair_by == "order":
        if len(files) != len(label_files):
            longer = max(files, label_files, key=len)
            raise DataError(
                'with `pair_by="order"` there must be as many files with labels as with features. '
                f"Received: {len(files)} with features, {len(label_files)} with labels; the first "
                f"without counterpart is {longer[min(len(files), len(label_files))].url}."
            )
        return list(zip(files, label_files, strict=True))
    features, labels = _by_stem(files), _by_stem(label_files)
    for ours, others, what in ((features, labels, "labels"), (labels, features, "features")):
        alone = next((file for stem, file in ours.items() if stem not in others), None)
        if alone is not None:
            raise DataError(
                "files with features and with labels must have the same names, but for the ending. "
                f'Received: no {what} for {alone.url}. Use `pair_by="order"` if names differ.'
            )
    return [(file, labels[stem]) for stem, file in features.items()]


def _by_stem(files: Iterable[StoredFile]) -> dict[str, StoredFile]:
    found: dict[str, StoredFile] = {}
    for file in files:
        stem = _stem(file.url)
        if stem in found:
            raise DataError(
                "names must differ where features and labels are paired by name. Received: "
                f'{found[stem].url} and {file.url}. Use `pair_by="order"`.'
            )
        found[stem] = file
    return found


def _stem(url: str) -> str:
    name = url.rpartition("/")[2]
    if compression_of(name) is not None:
        name = name.rpartition(".")[0]
    return name.rpartition(".")[0] or name
