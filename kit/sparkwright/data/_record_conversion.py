"""Convert records to examples: Sparkwright's own format, lines of a table, or a user function."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from typing import Any, TypeVar

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._csv_format import CsvFormat
from ._csv_parse import CsvColumns, convert_block
from ._record_bytes import BYTES, Decoders, decoder_of
from ._record_examples import NOTE, Layout, decode_examples, read_columns_note
from ._sequence_file import Record, SequenceHeader
from ._table_schema import TableSchema
from .chunks import CHUNK_BYTES
from .dataset import Array, DataSet
from .pieces import SkipLog
from .tables import to_dataset
from .wording import clipped

Convert = Callable[[Any, Any], Any]
Made = TypeVar("Made")
# A DataSet, or the columns of one example without the example axis.
Example = DataSet | Mapping[str, Array]
# How to parse lines of text: columns and their use; delimiter and quote.
TextLines = tuple[TableSchema, CsvFormat]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordConversion:
    """Conversion of the records of one file to DataSets, by `convert`, `lines` or `layout`."""

    source: str
    key: Callable[[bytes], Any] | None  # None: the records have no keys
    value: Callable[[bytes], Any]
    convert: Callable[[Any, Any], Example] | None = None
    lines: TextLines | None = None
    layout: Layout = field(default_factory=dict[str, Any])

    @classmethod
    def of(
        cls,
        header: SequenceHeader,
        *,
        source: str,
        convert: Convert | None = None,
        lines: TextLines | None = None,
        decoders: Decoders | None = None,
    ) -> "RecordConversion":
        """Create a conversion from the header of a file.

        Raises:
            DataError: if a class has no decoder; or, without `convert` and `lines`, if the file
                was not written by Sparkwright.
        """
        layout: Layout = {}
        key = decoder_of(header.key_class, decoders, role="key", source=source)
        value = decoder_of(header.value_class, decoders, role="value", source=source)
        if convert is None and lines is None:
            text = header.notes.get(NOTE)
            if text is None or header.value_class != BYTES:
                raise DataError(
                    "without `convert`, a record file must be written by Sparkwright. "
                    f"Received: {source} with keys of {header.key_class} and values of "
                    f"{header.value_class}. Pass `convert`, a function "
                    "(key, value) -> DataSet or (features, label)."
                )
            what = f"the note {NOTE!r} of a record file"
            layout, _ = read_columns_note(text, what=what, source=source)
        made = None if convert is None else partial(_made, convert)
        return cls(source=source, key=key, value=value, convert=made, lines=lines, layout=layout)

    def datasets(self, records: Iterable[Record], log: SkipLog) -> Iterator[DataSet]:
        """Yield the examples of `records` in order; report invalid records to `log`."""
        if self.convert is not None:
            yield from stacked(made for _, made in self._each(records, self._example, log))
            return
        group: list[Record] = []
        size_bytes = 0
        for record in records:
            group.append(record)
            size_bytes += len(record[2])
            if size_bytes >= CHUNK_BYTES:
                yield from self._convert_group(group, log)
                group, size_bytes = [], 0
        yield from self._convert_group(group, log)

    def _convert_group(self, group: list[Record], log: SkipLog) -> Iterator[DataSet]:
        if self.lines is not None:
            return self._parsed(group, *self.lines, log)
        values = (record[2] for record in group)
        return decode_examples(
            values, self.layout, lambda index, why: self._skip(log, group[index], why)
        )

    def _each(
        self, records: Iterable[Record], make: Callable[[Record], Made], log: SkipLog
    ) -> Iterator[tuple[Record, Made]]:
        """Yield (record, `make(record)`); report records for which `make` fails to `log`."""
        for record in records:
            try:
                made = make(record)
            except DataError as error:
                self._skip(log, record, str(error))
            except Exception as error:  # from the user's function
                text = f"{type(error).__name__}: {clipped(str(error), limit=200)}"
                self._skip(log, record, f"`convert` must not fail. Received: {text}.")
            else:
                yield record, made

    def _example(self, record: Record) -> Example:
        assert self.convert is not None
        return self.convert(self.key and self.key(record[1]), self.value(record[2]))

    def _line(self, record: Record) -> bytes:
        value = self.value(record[2])
        line = value.encode() if isinstance(value, str) else value
        if isinstance(line, bytes) and line and not (b"\n" in line or b"\r" in line):
            return line
        received = line[:40] if isinstance(line, bytes) else type(value)
        raise DataError(f"with `schema`, a value must be one line of text. Received: {received!r}.")

    def _parsed(
        self, group: list[Record], schema: TableSchema, form: CsvFormat, log: SkipLog
    ) -> Iterator[DataSet]:
        found = list(self._each(group, self._line, log))
        made = (
            convert_block(
                b"".join(line + b"\n" for _, line in found),
                form,
                CsvColumns(names=schema.columns, used=schema.used, texts=schema.texts),
                partial(to_dataset, schema=schema),
                lambda line: self._place(found[line][0]),
                log,
            )
            if found
            else None
        )
        if made is not None:
            yield made

    def _skip(self, log: SkipLog, record: Record, why: str) -> None:
        log.skip("unusable record", f"{why} It is {self._place(record)}.")

    def _place(self, record: Record) -> str:
        try:
            key = "" if self.key is None else f"with key {clipped(repr(self.key(record[1])))} "
        except Exception:  # from the user's decoder
            key = f"with key of bytes {record[1][:20].hex()} "
        return f"the record {key}at byte {record[0]} of {self.source}"

    def in_order(self, records: Iterable[Record], log: SkipLog) -> Iterator[Record]:
        """Yield `records`; skip those with a smaller key than the previous one."""
        last: Any = None
        assert self.key is not None
        for record in records:
            try:
                key = self.key(record[1])
            except Exception:
                yield record  # the conversion reports it
                continue
            if last is not None and key < last:
                log.skip("key out of order", out_of_order(key, last, record[0], self.source))
                continue
            last = key
            yield record


def out_of_order(key: Any, last: Any, position: int, source: str) -> str:
    """Return the error message for a key that is smaller than the previous one."""
    return (
        "the keys of a MapFile must be in ascending order. "
        f"Received: {clipped(repr(key))} after {clipped(repr(last))} at byte {position} of "
        f"{source}. Read it with `from_sequence_file`, or rewrite it."
    )


def _made(convert: Convert, key: Any, value: Any) -> Example:
    return example_of(convert(key, value))


def example_of(made: Any) -> Example:
    """Validate the result of a user's `convert`; return a DataSet or the columns of one example.

    Numbers and lists become float32, or int32 if they are integer labels. Arrays keep their dtype.
    """
    if isinstance(made, DataSet):
        return made
    if not (isinstance(made, tuple) and len(made) == 2):  # pyright: ignore[reportUnknownArgumentType]
        raise DataError(
            "`convert` must return a DataSet, or (features, label) of one example, where label "
            f"may be None. Received: {clipped(repr(made))}."
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
    """Yield DataSets unchanged; stack consecutive single examples of the same shapes."""
    for layout, group in groupby(examples, key=_layout):
        if layout is None:
            yield from group  # pyright: ignore[reportReturnType]
            continue
        size_bytes = sum(dtype.itemsize * math.prod(shape) for dtype, shape in layout.values())
        while chunk := list(islice(group, max(1, CHUNK_BYTES // max(1, size_bytes)))):
            yield DataSet.from_columns({n: np.stack([e[n] for e in chunk]) for n in layout})  # pyright: ignore


def _layout(example: Example) -> dict[str, Any] | None:
    if isinstance(example, DataSet):
        return None
    return {name: (array.dtype, array.shape) for name, array in example.items()}


def check_functions(convert: Any, decoders: Any) -> None:
    """Raise ConfigurationError unless `convert` and all `decoders` are callable or None."""
    if convert is not None and not callable(convert):
        raise ConfigurationError(
            f"`convert` must be a function or None. Received: convert={convert!r}."
        )
    if decoders is not None and not (
        isinstance(decoders, dict) and all(map(callable, decoders.values()))
    ):
        raise ConfigurationError(
            "`decoders` must be a dict of Java class name -> function of bytes. "
            f"Received: decoders={decoders!r}."
        )
