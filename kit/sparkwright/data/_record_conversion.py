"""What records mean: Sparkwright's own examples, lines of a table, or what a function returns."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._arrow import CHUNK_BYTES
from ._csv_format import CsvFormat
from ._csv_parse import CsvColumns, convert_block
from ._dataset import Array, DataSet
from ._pieces import SkipLog
from ._record_bytes import BYTES, Decoders, decoder_of
from ._record_examples import NOTE, RecordLayout, decode_examples, layout_from_json
from ._sequence_file import Record, SequenceHeader
from ._table_schema import TableSchema
from ._wording import clipped
from .tables import to_dataset

Convert = Callable[[Any, Any], Any]
# A DataSet, or the columns of one example without the axis of the examples.
Example = DataSet | Mapping[str, Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextLines:
    """How the text of a record becomes an example.

    Attributes:
        schema: columns and their use.
        form: delimiter and quote.
    """

    schema: TableSchema
    form: CsvFormat


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
        lines: TextLines | None = None,
        decoders: Decoders | None = None,
    ) -> None:
        """Check the header; without `convert` and `lines` the file must be Sparkwright's own."""
        self.source = source
        self.key = decoder_of(header.key_class, decoders, role="key", source=source)
        self.value = decoder_of(header.value_class, decoders, role="value", source=source)
        self._convert, self._text_lines = convert, lines
        self._layout: RecordLayout = {}
        if convert is None and lines is None:
            text = header.notes.get(NOTE)
            if text is None or header.value_class != BYTES:
                raise DataError(
                    "a record file must be written by Sparkwright, or read with `convert`, a "
                    "function (key, value) -> DataSet or (features, label). "
                    f"Received: {source} with keys of {header.key_class} and values of "
                    f"{header.value_class}."
                )
            self._layout = layout_from_json(text, source=source)

    def datasets(self, records: Iterable[Record], log: SkipLog) -> Iterator[DataSet]:
        """Yield the examples of `records` of this file, in order; `log` receives invalid ones."""
        group: list[Record] = []
        size_bytes = 0
        for record in records:
            group.append(record)
            size_bytes += len(record[2])
            if size_bytes >= CHUNK_BYTES:
                yield from self._together(group, log)
                group, size_bytes = [], 0
        yield from self._together(group, log)

    def _together(self, group: list[Record], log: SkipLog) -> Iterator[DataSet]:
        if self._text_lines is not None:
            return self._parsed(group, self._text_lines, log)
        if self._convert is not None:
            return stacked(self._converted(group, self._convert, log))
        values = (record[2] for record in group)
        return decode_examples(
            values, self._layout, lambda index, why: self._skip(log, group[index], why)
        )

    def _converted(
        self, group: list[Record], convert: Convert, log: SkipLog
    ) -> Iterator[DataSet | Mapping[str, Array]]:
        for record in group:
            try:
                found = example_of(convert(self.key(record[1]), self.value(record[2])))
            except Exception as error:  # whatever a function of the user's raises
                self._skip(log, record, reason_of(error))
            else:
                yield found

    def _parsed(self, group: list[Record], lines: TextLines, log: SkipLog) -> Iterator[DataSet]:
        found = [(record, line) for record in group if (line := self._line(record, log))]
        if not found:
            return
        schema = lines.schema
        made = convert_block(
            b"".join(line + b"\n" for _, line in found),
            lines.form,
            CsvColumns(names=schema.columns, used=schema.used, texts=schema.texts),
            partial(to_dataset, schema=schema),
            lambda line: self._place(found[line][0]),
            log,
        )
        if made is not None:
            yield made

    def _line(self, record: Record, log: SkipLog) -> bytes | None:
        try:
            value: Any = self.value(record[2])
        except Exception as error:  # whatever a decoder of the user's raises
            self._skip(log, record, str(error))
            return None
        line = value.encode() if isinstance(value, str) else value
        if isinstance(line, bytes) and line and not (b"\n" in line or b"\r" in line):
            return line
        received = line[:40] if isinstance(line, bytes) else type(value)
        self._skip(log, record, f"a text must be one line of a table. Received: {received!r}.")
        return None

    def _skip(self, log: SkipLog, record: Record, why: str) -> None:
        log.skip("unusable record", f"{why} It is {self._place(record)}.")

    def _place(self, record: Record) -> str:
        try:
            key = clipped(repr(self.key(record[1])))
        except Exception:  # whatever a decoder of the user's raises
            key = f"of bytes {record[1][:20].hex()}"
        return f"the record with key {key} at byte {record[0]} of {self.source}"


def example_of(made: Any) -> Example:
    """Check what a user's function returned: a DataSet, or the columns of one example.

    Numbers and lists become float32; integers among labels int32. Arrays keep their dtype.
    """
    if isinstance(made, DataSet):
        return made
    if not (isinstance(made, tuple) and len(made) == 2):  # pyright: ignore[reportUnknownArgumentType]
        raise DataError(
            "`convert` must return a DataSet, or (features, label) of one example, with None for "
            f"no label. Received: {clipped(repr(made))}."
        )
    found: dict[str, Array] = {}
    for group, value in zip(("features", "labels"), made, strict=True):
        named = value if isinstance(value, Mapping) else {group: value}
        for name, one in {} if value is None else named.items():
            array = np.asarray(one)
            if not isinstance(one, np.ndarray | np.generic) and array.dtype.kind in "iuf":
                integer = group == "labels" and array.dtype.kind in "iu"
                array = array.astype(np.int32 if integer else np.float32)
            found[f"{group}/{name}"] = array
    return found


def stacked(examples: Iterable[Example]) -> Iterator[DataSet]:
    """Yield DataSets as they are, and single examples joined to chunks while shapes agree."""
    waiting: list[Mapping[str, Array]] = []
    layout: Any = None
    size_bytes = 0
    for example in examples:
        found = None
        if not isinstance(example, DataSet):
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
    records: Iterable[Record], conversion: RecordConversion, log: SkipLog
) -> Iterator[Record]:
    """Yield `records` without those whose key is smaller than the one before."""
    last: Any = None
    for record in records:
        try:
            key = conversion.key(record[1])
        except Exception:
            yield record  # the conversion reports it
            continue
        if last is not None and key < last:
            log.skip("key out of order", out_of_order(key, last, record[0], conversion.source))
            continue
        last = key
        yield record


def out_of_order(key: Any, last: Any, position: int, source: str) -> str:
    """Return the message about a key that is smaller than the one before."""
    return (
        "the keys of a MapFile must not fall. "
        f"Received: {clipped(repr(key))} after {clipped(repr(last))} at byte {position} of "
        f"{source}. Read it as a SequenceFile, or write it again."
    )


def check_functions(convert: Any, decoders: Any) -> None:
    """Raise for options that cannot be called."""
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


def reason_of(error: Exception) -> str:
    """Return the message about what a user's function raised."""
    if isinstance(error, DataError):
        return str(error)
    text = clipped(str(error), limit=200)
    return f"`convert` must not fail. Received: {type(error).__name__}: {text}."
