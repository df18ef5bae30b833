"""What the records of a file mean: examples of our own, or whatever a function makes of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sparkwright.data._chunks import CHUNK_BYTES
from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._wording import clipped
from sparkwright.errors import ConfigurationError, DataError

from ._example_records import NOTE, RecordLayout, decode_examples
from ._hadoop_types import BYTES, hadoop_type
from ._sequence_file import SequenceHeader
from ._sequence_file_reader import Record

Convert = Callable[[Any, Any], Any]
# Gets a few words for the kind of fault, and the whole message; raises, or counts.
Skip = Callable[[str, str], None]
Decoders = Mapping[str, Callable[[bytes], Any]]
# A DataSet, or the columns of one example without the axis of the examples.
Example = DataSet | Mapping[str, Array]


class RecordConversion:
    """How the records of one file become DataSets.

    Attributes:
        source: the file, for errors.
        key: bytes of a key -> Python value.
        value: bytes of a value -> Python value.
    """

    def __init__(
        self,
        header: SequenceHeader,
        *,
        source: str,
        convert: Convert | None = None,
        decoders: Decoders | None = None,
    ) -> None:
        """Look at the header.

        Args:
            header: of the file.
            source: the file, for errors.
            convert: key, value -> a DataSet, or (features, label) of one example; default None:
                the file is one of ours.
            decoders: Java class name -> function of a key's or value's bytes; default none.

        Raises:
            DataError: if the file's classes are unknown, or it is none of ours and there is no
                `convert`.
        """
        self.source = source
        self._convert = convert
        own = decoders or {}
        self.key = decoder_of(header.key_class, own, "key", source)
        self.value = decoder_of(header.value_class, own, "value", source)
        self._layout: RecordLayout | None = None
        if convert is None:
            text = header.notes.get(NOTE)
            if text is None or header.value_class != BYTES:
                raise DataError(
                    "a record file must be written by Sparkwright, or read with `convert`, a "
                    "function (key, value) -> DataSet or (features, label). "
                    f"Received: {source} with keys of {header.key_class} and values of "
                    f"{header.value_class}."
                )
            self._layout = RecordLayout.from_json(text, source=source)

    def datasets(self, records: Iterable[Record], skip: Skip) -> Iterator[DataSet]:
        """The examples of `records`, in order, neighbours of the same shapes together.

        Args:
            records: of this file.
            skip: gets what cannot be used.
        """
        group: list[Record] = []
        size_bytes = 0
        for record in records:
            group.append(record)
            size_bytes += len(record[2])
            if size_bytes >= CHUNK_BYTES:
                yield from self._together(group, skip)
                group, size_bytes = [], 0
        yield from self._together(group, skip)

    def _together(self, group: list[Record], skip: Skip) -> Iterator[DataSet]:
        if self._layout is None:
            yield from stacked(self._converted(group, skip))
            return
        yield from decode_examples(
            [record[2] for record in group],
            self._layout,
            lambda index, why: self.tell(skip, group[index], why),
        )

    def _converted(
        self, group: list[Record], skip: Skip
    ) -> Iterator[DataSet | Mapping[str, Array]]:
        assert self._convert is not None
        for record in group:
            try:
                found = example_of(self._convert(self.key(record[1]), self.value(record[2])))
            except Exception as error:  # whatever a function of the user's raises
                self.tell(skip, record, told(error))
            else:
                yield found

    def tell(self, skip: Skip, record: Record, why: str) -> None:
        """Say why a record cannot be used, and which one it is."""
        skip("unusable record", f"{why} It is {self.place(record)}.")

    def place(self, record: Record) -> str:
        """Which record it is, in words."""
        try:
            key = clipped(repr(self.key(record[1])))
        except Exception:  # whatever a decoder of the user's raises
            key = f"of bytes {record[1][:20].hex()}"
        return f"the record with key {key} at byte {record[0]} of {self.source}"


def example_of(made: Any) -> Example:
    """What a user's function made: a DataSet, or the columns of one example.

    Numbers and lists become float32; whole numbers among labels int32. Arrays stay as they are.

    Raises:
        DataError: if it is neither a DataSet nor (features, label).
    """
    if isinstance(made, DataSet):
        return made
    if not (isinstance(made, tuple) and len(made) == 2):  # pyright: ignore[reportUnknownArgumentType]
        raise DataError(
            "`convert` must return a DataSet, or (features, label) of one example, with None for "
            f"no label. Received: {clipped(repr(made))}."
        )
    features, labels = made
    return {**_columns("features", features), **_columns("labels", labels)}


def _columns(group: str, value: Any) -> dict[str, Array]:
    if value is None:
        return {}
    named = value if isinstance(value, Mapping) else {group: value}
    return {f"{group}/{name}": _array(group, one) for name, one in named.items()}


def _array(group: str, value: Any) -> Array:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    array = np.asarray(value)
    whole = group == "labels" and array.dtype.kind in "iu"
    return array.astype(np.int32 if whole else np.float32) if array.dtype.kind in "iuf" else array


def stacked(examples: Iterable[Example]) -> Iterator[DataSet]:
    """DataSets as they are; columns of single examples joined to chunks while shapes agree."""
    waiting: list[Mapping[str, Array]] = []
    layout: Any = None
    size_bytes = 0
    for example in examples:
        if isinstance(example, DataSet):
            found = None
        else:
            found = {name: (array.dtype, array.shape) for name, array in example.items()}
        if waiting and (found != layout or size_bytes >= CHUNK_BYTES):
            yield _stack(waiting)
            waiting, size_bytes = [], 0
        if isinstance(example, DataSet):
            yield example
        else:
            waiting.append(example)
            layout = found
            size_bytes += sum(array.nbytes for array in example.values())
    if waiting:
        yield _stack(waiting)


def _stack(examples: list[Mapping[str, Array]]) -> DataSet:
    return DataSet.from_columns({n: np.stack([e[n] for e in examples]) for n in examples[0]})


def in_order(
    records: Iterable[Record], conversion: RecordConversion, skip: Skip
) -> Iterator[Record]:
    """`records` without those whose key is smaller than one before."""
    last: Any = None
    for record in records:
        try:
            key = conversion.key(record[1])
        except Exception:
            yield record  # the conversion says what is wrong with it
            continue
        if last is not None and key < last:
            skip("key out of order", out_of_order(key, last, record[0], conversion.source))
            continue
        last = key
        yield record


def out_of_order(key: Any, last: Any, position: int, source: str) -> str:
    """What is wrong with a key that is smaller than the one before."""
    return (
        "the keys of a MapFile must not fall. "
        f"Received: {clipped(repr(key))} after {clipped(repr(last))} at byte {position} of "
        f"{source}. Read it as a SequenceFile, or write it again."
    )


def check_functions(convert: Any, decoders: Any) -> None:
    """Refuse what cannot be called.

    Raises:
        ConfigurationError: naming the option.
    """
    if convert is not None and not callable(convert):
        raise ConfigurationError(
            "`convert` must be a function of a key and a value, or None. "
            f"Received: convert={convert!r}."
        )
    if decoders is not None and not (
        isinstance(decoders, dict) and all(map(callable, decoders.values()))
    ):
        raise ConfigurationError(
            "`decoders` must be a dict: Java class name -> function of bytes. "
            f"Received: decoders={decoders!r}."
        )


def decoder_of(
    class_name: str, decoders: Decoders, role: str, source: str
) -> Callable[[bytes], Any]:
    """The function that reads keys or values of a class: of the user's, or of Hadoop's types.

    Raises:
        DataError: if there is none.
    """
    if class_name in decoders:
        return decoders[class_name]
    return hadoop_type(class_name, role=role, source=source).decode


def told(error: Exception) -> str:
    """What a function of the user's raised, in words."""
    if isinstance(error, DataError):
        return str(error)
    said = clipped(str(error), limit=200)
    return f"`convert` must not fail. Received: {type(error).__name__}: {said}."
