"""How a CSV file is written, and where the records of its text begin and end.

Quotes count only at the beginning of a field, as RFC 4180 has it; a doubled quote inside is one
quote. NumPy looks at whole blocks; a regular expression only at records with quotes.
"""

import codecs
import csv
import io
import re
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.data.dataset import Array
from sparkwright.errors import ConfigurationError, DataError

MISSING_VALUES = ("", "NA", "NaN", "null")
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_LINE_FEED, _RETURN = 10, 13
_LINE_END = re.compile(rb"\r\n|\n|\r")


@configuration
class CsvFormat(Configuration):
    """How the files are written; the same rules for tables, sequences, joins, records, previews."""

    header: bool = option(
        default=True,
        label="Header line",
        help="Names the columns. Without: column_0, column_1, and so on.",
    )
    column_names: tuple[str, ...] | None = option(
        default=None,
        form=False,
        help="Names in place of the header's. None: the header's, or `column_0`, `column_1`, …",
    )
    delimiter: str = option(
        default=",",
        label="Delimiter",
        words=(("tab", "\t"), ("space", " ")),
        help="One ASCII character between fields.",
    )
    quote: str | None = option(
        default='"',
        label="Quote character",
        none_text="no quotes",
        help="One ASCII character around fields. None: no quotes.",
    )
    skip_lines: int = option(
        default=0, minimum=0, help="Lines to skip at the beginning of each file."
    )
    newlines_in_values: bool = option(
        default=False,
        label="Line breaks in quoted values",
        help="Each such file is read by one task.",
    )
    encoding: str = option(
        default="utf-8",
        help="Text encoding, such as utf-8 or latin-1. A byte order mark is removed.",
    )
    missing_values: tuple[str, ...] = option(
        default=MISSING_VALUES, help="Texts that stand for a missing value; '' is an empty field."
    )

    def _check(self) -> None:
        _check_sign("delimiter", self.delimiter)
        if self.quote is not None:
            _check_sign("quote", self.quote)
            if self.quote == self.delimiter:
                raise ConfigurationError(
                    "`quote` and `delimiter` must differ. "
                    f"Received: quote={self.quote!r}, delimiter={self.delimiter!r}."
                )
        if self.column_names is not None:
            object.__setattr__(self, "column_names", _texts("column_names", self.column_names))
        missing = () if self.missing_values is None else self.missing_values  # pyright: ignore[reportUnnecessaryComparison]
        object.__setattr__(self, "missing_values", _texts("missing_values", missing))
        try:
            # Python knows encodings of bytes, too, as hex; `decode` refuses them.
            b"a".decode(self.encoding, "ignore")
            codecs.getincrementaldecoder(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise ConfigurationError(
                "`encoding` must be one of text that Python knows, as utf-8 or latin-1. "
                f"Received: encoding={self.encoding!r}."
            ) from None

    @property
    def is_utf8(self) -> bool:
        """Whether the text needs no transcoding."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    def can_split(self, url: str) -> bool:
        """Whether several tasks may read parts of one file: line ends alone say where."""
        return self.is_utf8 and not self.newlines_in_values and compression_of(url) is None

    def fields(self, record: str) -> list[str]:
        """The fields of one record, as text; DataError, without the file, if one is very long."""
        try:
            return next(self.rows(record), [])
        except csv.Error as error:
            raise DataError(
                f"the first line must be fields of ordinary length. Received: {record[:40]!r} …, "
                f"of which Python says: {error}. Is the delimiter {self.delimiter!r}?"
            ) from None

    def rows(self, text: str) -> Any:
        """A `csv.reader` of this format."""
        return csv.reader(
            # `newline=""`: only the reader knows which line ends are inside quotes.
            io.StringIO(text, newline=""),
            delimiter=self.delimiter,
            quotechar=self.quote or '"',
            quoting=csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
        )

    def complete_end(self, block: bytes) -> int:
        """Where the last complete record of a block ends; 0 if none does."""
        quote = self._quote_in(block)
        if not self.newlines_in_values or quote is None:
            end = block.rfind(b"\n") + 1
            # A last `\r` may be half of a `\r\n`.
            return end or block.rfind(b"\r", 0, -1) + 1
        data = np.frombuffer(block, np.uint8)
        quotes = np.flatnonzero(data == quote)
        if self._well_formed(data, quotes):
            ends = np.flatnonzero(data == _LINE_FEED)
            outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
            return int(outside[-1]) + 1 if outside.size else 0
        end = 0
        for match in self._pattern.finditer(block):
            # Without a line end the record may go on; a last `\r` may be half of a `\r\n`.
            if match.lastindex != 1 or match.end() == match.end(1):
                break
            if match.end() == len(block) and block[-1] == _RETURN:
                break
            end = match.end()
        return end

    def is_plain(self, block: bytes, rows: int) -> bool:
        """Whether a parser that found `rows` records cannot have misread an open quote.

        No is no proof that something is wrong: look at `records` then.
        """
        quote = self._quote_in(block)
        if quote is None:
            return True
        if self.newlines_in_values:
            data = np.frombuffer(block, np.uint8)
            quotes = np.flatnonzero(data == quote)
            return len(quotes) % 2 == 0 and self._well_formed(data, quotes)
        return rows == line_count(block) + (block[-1] not in (_LINE_FEED, _RETURN))

    def records(self, block: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Start and end of each record that is not blank; whether all its quoted values end."""
        found = [
            (start, end, match.lastindex == 1)
            for match in self._pattern.finditer(block)
            for start, end in [match.span(match.lastindex or 0)]
            if start < end and not self._is_blank(block[start:end])
        ]
        starts, ends, closed = np.array(found, np.int64).reshape(-1, 3).T
        return starts, ends, closed == 1

    def _is_blank(self, record: bytes) -> bool:
        """With tabs or spaces between fields, a line of them is a record of empty fields."""
        return record[0] in b" \t" and not record.strip() and self.delimiter.encode() not in record

    def _quote_in(self, block: bytes) -> int | None:
        return ord(self.quote) if self.quote and self.quote.encode() in block else None

    def _well_formed(self, data: Array, quotes: NDArray[np.int64]) -> bool:
        """Whether quotes open only where fields begin and close only where they end.

        Then, and only then, a line end is outside of quotes if the number of quotes before it is
        even.
        """
        signs = (ord(self.delimiter), ord(self.quote or ""), _LINE_FEED, _RETURN)
        neighbors = np.array(signs, np.uint8)
        opening, closing = quotes[0::2], quotes[1::2]
        before = data[opening[opening > 0] - 1]
        after = data[closing[closing < len(data) - 1] + 1]
        return bool(np.isin(before, neighbors).all() and np.isin(after, neighbors).all())

    @property
    def _pattern(self) -> re.Pattern[bytes]:
        return _record(self.delimiter, self.quote, self.newlines_in_values)


def compression_of(url: str) -> str | None:
    """The codec that the ending of `url` names, if any.

    Example:
        >>> compression_of("a/b.csv.gz"), compression_of("a/b.csv")
        ('gzip', None)
    """
    return next((codec for end, codec in _COMPRESSED.items() if url.lower().endswith(end)), None)


def line_count(text: bytes) -> int:
    r"""How many line ends `text` has: `\n`, `\r\n` or `\r`.

    Example:
        >>> line_count(b"a\r\nb\nc\rd")
        3
    """
    # Several times as fast as `bytes.count`, which looks for one after the other.
    lines = int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LINE_FEED))
    returns = text.count(b"\r") if b"\r" in text else 0
    return lines + returns - (text.count(b"\r\n") if returns else 0)


def line_end(text: bytes, at: int) -> int | None:
    r"""Where the line that begins at `at` ends, with its line end; None if it does not.

    Example:
        >>> line_end(b"a\r\nb\rc", 0), line_end(b"a\r\nb\rc", 3), line_end(b"a\r\nb\rc", 5)
        (3, 5, None)
    """
    found = _LINE_END.search(text, at)
    return None if found is None else found.end()


@lru_cache(maxsize=32)
def _record(delimiter: str, quote: str | None, multiline: bool) -> re.Pattern[bytes]:
    """Match a record with its line end: group 1 if all its quoted values end, else group 2."""
    d, end = re.escape(delimiter.encode()), rb"(?:\r\n|\n|\r|\Z)"
    if quote is None:
        return re.compile(rb"([^\r\n]*)" + end)
    q = re.escape(quote.encode())
    inside = rb"[^" + q + (rb"" if multiline else rb"\r\n") + rb"]"
    # There is one way to read a record, so a failure is found without trying others. (Possessive
    # quantifiers would say so, but match wrongly in Python 3.11.0 to 3.11.4.)
    field = (
        rb"(?:" + q + inside + rb"*(?:" + q + q + inside + rb"*)*" + q + rb"(?!" + q + rb")"
        rb"[^" + d + rb"\r\n]*|(?!" + q + rb")[^" + d + rb"\r\n]*)"
    )
    fields = rb"([^" + q + rb"\r\n]*|" + field + rb"(?:" + d + field + rb")*)" + end
    return re.compile(fields + rb"|" + (rb"([\s\S]+)" if multiline else rb"([^\r\n]*)" + end))


def _check_sign(name: str, value: Any) -> None:
    fits = isinstance(value, str) and len(value) == 1 and value.isascii()
    if not fits or value in "\r\n\0" or value.isalnum() or value == ".":
        raise ConfigurationError(
            f"`{name}` must be one ASCII character and no letter, digit, full stop or line end. "
            f"Received: {name}={value!r}."
        )


def _texts(name: str, value: Any) -> tuple[str, ...]:
    several: list[Any] = list(value) if isinstance(value, list | tuple) else [None]  # pyright: ignore[reportUnknownArgumentType]
    if not all(isinstance(text, str) for text in several):
        raise ConfigurationError(f"`{name}` must be several texts. Received: {name}={value!r}.")
    return tuple(several)
