"""One CSV file: parsed by Arrow as columns; what is wrong in it, by line."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from sparkwright.data._dataset import Array
from sparkwright.data._tables._csv_format import compression_of
from sparkwright.data._wording import clipped, shortened
from sparkwright.errors import ConfigurationError
from sparkwright.storage._files import read_bytes

LONGEST_BYTES = 1 << 30  # of the text of a packed file
_UNPACKED_BYTES = 4 << 20
_MISSING = ("", "NA", "NaN", "nan", "null", "NULL", "None")


class UnusableFile(Exception):
    """A file that holds no sequence as it should: why, in a few words and in whole sentences."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFormat:
    """How lines become columns.

    Attributes:
        delimiter: one ASCII character between fields; default a comma.
        quote: one ASCII character around fields, None for none; default a double quote.
        skip_lines: lines to leave out at the top; default 0.
        header: whether the next line has the columns' names; default False: they are `f0`, `f1`, …
        names: of all columns; set once a file has been looked into.
        numbers: columns read as float32.
        texts: columns read as text.
    """

    delimiter: str = ","
    quote: str | None = '"'
    skip_lines: int = 0
    header: bool = False
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option in ("delimiter", "quote"):
            value: Any = getattr(self, option)
            if value is None and option == "quote":
                continue
            if not (isinstance(value, str) and len(value) == 1 and value.isascii()):
                raise _bad_option(option, value)
            if value in "\r\n\0" or value.isalnum() or value in ".+-":
                raise _bad_option(option, value)
        if self.delimiter == self.quote:
            raise _bad_option("delimiter", self.delimiter)
        skip: Any = self.skip_lines
        if isinstance(skip, bool) or not isinstance(skip, int) or skip < 0:
            raise ConfigurationError(
                "`skip_lines` must be an integer of at least 0. "
                f"Received: skip_lines={self.skip_lines!r}."
            )
        if not isinstance(self.header, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"`header` must be True or False. Received: header={self.header!r}."
            )

    def of_file(self, url: str) -> "StepFormat":
        """This format with the names of the columns of `url`.

        Raises:
            UnusableFile: if there are none.
        """
        rows = _rows(url, _content(url), replace(self, header=False))
        _, first = next(rows, (0, []))
        if not first:
            raise _nothing_in(url)
        names = tuple(first) if self.header else tuple(f"f{i}" for i in range(len(first)))
        double = sorted({name for name in names if names.count(name) > 1}) if self.header else []
        if double:
            raise UnusableFile(
                "wrong header",
                f"columns must have different names. Received: {shortened(double)} more than once "
                f"in the header of {url}.",
            )
        return replace(self, names=names)


def _bad_option(option: str, value: Any) -> ConfigurationError:
    return ConfigurationError(
        f"`{option}` must be one ASCII character that is no letter, digit, sign, full stop or line "
        f"end, and not the other one of `delimiter` and `quote`. Received: {option}={value!r}."
    )


def read_columns(url: str, layout: StepFormat) -> dict[str, Array]:
    """The columns that `layout` wants from one file.

    Args:
        url: of the file; it is read whole.
        layout: with names.

    Returns:
        Column name -> (steps,) array: float32, or objects (str) for texts.

    Raises:
        UnusableFile: naming file, line and column.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    content = _content(url)
    kinds = dict.fromkeys(layout.names, pa.binary())
    kinds |= dict.fromkeys(layout.numbers, pa.float32()) | dict.fromkeys(layout.texts, pa.string())
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                # In one block: a sequence is in memory as a whole anyway.
                block_size=min(len(content) + 1, (1 << 31) - 1),
                skip_rows=layout.skip_lines,
                autogenerate_column_names=not layout.header,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char=layout.quote or False,
                newlines_in_values=True,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=kinds,
                null_values=list(_MISSING),
                strings_can_be_null=True,
                check_utf8=True,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _explained(url, content, layout, str(error)) from None
    if tuple(table.column_names) != layout.names:
        raise _explained(url, content, layout, "columns differ")
    if not table.num_rows:
        raise _nothing_in(url)
    wanted = [*layout.numbers, *layout.texts]
    columns = {name: table.column(name) for name in wanted}
    if any(column.null_count for column in columns.values()):
        raise _explained(url, content, layout, "a value is missing")
    arrays: dict[str, Array] = {name: column.to_numpy() for name, column in columns.items()}
    # Arrow takes "NAN", "Infinity" and "1e400" for numbers.
    if not all(np.isfinite(arrays[name]).all() for name in layout.numbers):
        raise _explained(url, content, layout, "a number is not finite")
    return arrays


def line_of(url: str, layout: StepFormat, step: int) -> int:
    """The line, from 1, of a step of a file that has been read before."""
    rows = _rows(url, _content(url), layout)
    return next(line for number, (line, _) in enumerate(rows) if number == step)


def _content(url: str) -> bytes:
    """The text of a file, unpacked."""
    try:
        content = read_bytes(url)
    except OSError as error:
        message = f"each sequence must be a file that can be read. Received: {error}"
        raise UnusableFile("unreadable", message) from None
    codec = compression_of(url)
    return content if codec is None or not content else _unpacked(content, codec, url)


def _unpacked(content: bytes, codec: str, url: str) -> bytes:
    import pyarrow as pa

    blocks: list[bytes] = []
    size_bytes = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
            while block := stream.read(_UNPACKED_BYTES):
                blocks.append(block)
                size_bytes += len(block)
                # A few packed megabytes may hold a terabyte of zeros.
                if size_bytes > LONGEST_BYTES:
                    raise UnusableFile(
                        "too large",
                        f"a packed file must hold at most {LONGEST_BYTES:,} bytes. Received: more "
                        f"in {url}.",
                    )
    except OSError as error:
        raise UnusableFile(
            "unreadable",
            f"a file that ends in .{url.rpartition('.')[2]} must be packed so. Received: "
            f"{clipped(str(error), limit=200)} of {url}.",
        ) from None
    return b"".join(blocks)


def _nothing_in(url: str) -> UnusableFile:
    return UnusableFile("empty", f"a sequence must have a step at least. Received: none in {url}.")


def _rows(url: str, content: bytes, layout: StepFormat) -> Iterator[tuple[int, list[str]]]:
    """(line from 1, fields) of each line with something in it, below the header: the slow way."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UnusableFile(
            "invalid UTF-8",
            f"files must be UTF-8. Received: byte {content[error.start]:#04x} in {url}, line "
            f"{line}. Convert the file first.",
        ) from None
    lines = islice(io.StringIO(text, newline=""), layout.skip_lines, None)
    quoting = csv.QUOTE_MINIMAL if layout.quote else csv.QUOTE_NONE
    reader = csv.reader(
        lines, delimiter=layout.delimiter, quotechar=layout.quote or '"', quoting=quoting
    )
    before, skip_header = 0, layout.header
    try:
        for fields in reader:
            line, before = before + 1, reader.line_num
            if not fields:
                continue
            if skip_header:
                skip_header = False
                continue
            yield layout.skip_lines + line, fields
    except csv.Error as error:
        line = layout.skip_lines + reader.line_num
        raise UnusableFile(
            "not CSV", f"fields must be CSV. Received: {error} in {url}, line {line}."
        ) from None


def _explained(url: str, content: bytes, layout: StepFormat, otherwise: str) -> UnusableFile:
    """What is wrong in a file that Arrow refuses; `otherwise` where the slow way finds nothing."""
    try:
        return _first_fault(url, content, layout) or UnusableFile(
            "not CSV", f"fields must be CSV. Received: {clipped(otherwise, limit=200)} in {url}."
        )
    except UnusableFile as found:
        return found


def _first_fault(url: str, content: bytes, layout: StepFormat) -> UnusableFile | None:
    if layout.header:
        _, names = next(_rows(url, content, replace(layout, header=False)), (0, []))
        if names and tuple(names) != layout.names:
            return UnusableFile(
                "wrong header",
                f"all files must have the header of the first, {shortened(layout.names)}. "
                f"Received: {shortened(names)} in {url}.",
            )
    empty = True
    for line, fields in _rows(url, content, layout):
        empty = False
        if len(fields) != len(layout.names):
            return UnusableFile(
                "wrong number of columns",
                f"every line must have {len(layout.names)} columns, as the first file has. "
                f"Received: {len(fields)} in {url}, line {line}.",
            )
        fault = _faulty_field(url, line, dict(zip(layout.names, fields, strict=True)), layout)
        if fault is not None:
            return fault
    return _nothing_in(url) if empty else None


def _faulty_field(
    url: str, line: int, fields: dict[str, str], layout: StepFormat
) -> UnusableFile | None:
    for name in (*layout.numbers, *layout.texts):
        if fields[name] in _MISSING:
            return UnusableFile(
                "missing value",
                f"a sequence must have no missing values. Received: {fields[name]!r} in column "
                f"{clipped(name)!r} of {url}, line {line}.",
            )
        if name not in layout.numbers:
            continue
        number = _number(fields[name])
        if number is None:
            return UnusableFile(
                "not a number",
                f"column {clipped(name)!r} must hold numbers. Received: "
                f"{clipped(fields[name])!r} in {url}, line {line}. Or leave it out of "
                "`features` and `labels`.",
            )
        if not np.isfinite(number):
            return UnusableFile(
                "missing value" if np.isnan(number) else "not finite",
                f"column {clipped(name)!r} must hold finite numbers within float32. Received: "
                f"{clipped(fields[name])!r} in {url}, line {line}.",
            )
    return None


def _number(text: str) -> Any:
    """As float32, infinite if it is too large; None if it is no number."""
    if "_" in text:
        return None
    try:
        with np.errstate(over="ignore"):
            return np.float32(float(text))
    except ValueError:
        return None


def matrix(columns: dict[str, Array], names: Sequence[str]) -> Array:
    """(steps, columns) float32."""
    return np.stack([columns[name] for name in names], axis=1)
