"""CSV dialect options, and finding the boundaries of records.

As in RFC 4180, quotes count only at the beginning of a field, and a doubled quote inside is one
quote. NumPy scans whole blocks; a regular expression scans only records with quotes.
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
    """The CSV dialect, shared by tables, sequences, joins, records and previews."""

    header: bool = option(
        default=True,
        label="Header line",
        help="Whether the first line holds the column names. Otherwise: column_0, column_1, …",
    )
    column_names: tuple[str, ...] | None = option(
        default=None,
        form=False,
        help="Column names that replace the header's. None: the header's, or `column_0`, …",
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
        help="Allows line breaks in quoted values; each file is then read by one task.",
    )
    encoding: str = option(
        default="utf-8",
        help="Text encoding, such as utf-8 or latin-1. A byte order mark is removed.",
    )
    missing_values: tuple[str, ...] = option(
        default=MISSING_VALUES, help="Texts read as missing values; '' is an empty field."
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
            # Excludes Python's bytes-to-bytes codecs, such as hex.
            b"a".decode(self.encoding, "ignore")
            codecs.getincrementaldecoder(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise ConfigurationError(
                "`encoding` must be a text encoding of Python, such as utf-8 or latin-1. "
                f"Received: encoding={self.encoding!r}."
            ) from None

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8 or ASCII already."""
        return codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")

    def can_split(self, url: str) -> bool:
        """Whether several tasks can read parts of a file: line ends alone separate records."""
        return self.is_utf8 and not self.newlines_in_values and compression_of(url) is None

    def fields(self, record: str) -> list[str]:
        """Return the fields of one record as text; DataError, without the file, if invalid."""
        try:
            return next(self.rows(record), [])
        except csv.Error as error:
            raise DataError(
                f"the first line must be fields of ordinary length. Received: {record[:40]!r} …, "
                f"{error}. Check the delimiter {self.delimiter!r}."
            ) from None

    def rows(self, text: str) -> Any:
        """Return a `csv.reader` with this dialect."""
        return csv.reader(
            # `newline=""`: the reader itself handles line ends inside quotes.
            io.StringIO(text, newline=""),
            delimiter=self.delimiter,
            quotechar=self.quote or '"',
            quoting=csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
        )

    def complete_end(self, block: bytes) -> int:
        """Return the end of the last complete record of a block; 0 if there is none."""
        quote = self._quote_in(block)
        if not self.newlines_in_values or quote is None:
            end = block.rfind(b"\n") + 1
            # A final `\r` may be the first half of `\r\n`.
            return end or block.rfind(b"\r", 0, -1) + 1
        data = np.frombuffer(block, np.uint8)
        quotes = np.flatnonzero(data == quote)
        if self._well_formed(data, quotes):
            ends = np.flatnonzero(data == _LINE_FEED)
            outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
            return int(outside[-1]) + 1 if outside.size else 0
        end = 0
        for match in self._pattern.finditer(block):
            # Without a line end the record may be incomplete; so may a final `\r`.
            if match.lastindex != 1 or match.end() == match.end(1):
                break
            if match.end() == len(block) and block[-1] == _RETURN:
                break
            end = match.end()
        return end

    def is_plain(self, block: bytes, rows: int) -> bool:
        """Whether a parser that found `rows` records surely did not misread an unclosed quote.

        False does not mean that the block is invalid; check with `records`.
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
        """Return start and end of each non-blank record, and whether its quotes are closed."""
        found = [
            (start, end, match.lastindex == 1)
            for match in self._pattern.finditer(block)
            for start, end in [match.span(match.lastindex or 0)]
            if start < end and not self._is_blank(block[start:end])
        ]
        starts, ends, closed = np.array(found, np.int64).reshape(-1, 3).T
        return starts, ends, closed == 1

    def _is_blank(self, record: bytes) -> bool:
        """Whether a record is blank; a line of tab or space delimiters has empty fields."""
        return record[0] in b" \t" and not record.strip() and self.delimiter.encode() not in record

    def _quote_in(self, block: bytes) -> int | None:
        return ord(self.quote) if self.quote and self.quote.encode() in block else None

    def _well_formed(self, data: Array, quotes: NDArray[np.int64]) -> bool:
        """Whether quotes open only at the start of fields and close only at their end.

        Only then an even number of quotes before a line end means that it is outside of quotes.
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
    """Return the codec given by the extension of `url`, or None.

    Example:
        >>> compression_of("a/b.csv.gz"), compression_of("a/b.csv")
        ('gzip', None)
    """
    return next((codec for end, codec in _COMPRESSED.items() if url.lower().endswith(end)), None)


def line_count(text: bytes) -> int:
    r"""Count the line ends in `text`: `\n`, `\r\n` or `\r`.

    Example:
        >>> line_count(b"a\r\nb\nc\rd")
        3
    """
    # Several times as fast as `bytes.count`.
    lines = int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LINE_FEED))
    returns = text.count(b"\r") if b"\r" in text else 0
    return lines + returns - (text.count(b"\r\n") if returns else 0)


def line_end(text: bytes, at: int) -> int | None:
    r"""Return the end of the line at `at`, including its line end; None without a line end.

    Example:
        >>> line_end(b"a\r\nb\rc", 0), line_end(b"a\r\nb\rc", 3), line_end(b"a\r\nb\rc", 5)
        (3, 5, None)
    """
    found = _LINE_END.search(text, at)
    return None if found is None else found.end()


@lru_cache(maxsize=32)
def _record(delimiter: str, quote: str | None, multiline: bool) -> re.Pattern[bytes]:
    """Return a pattern of a record and its line end: group 1 with closed quotes, else group 2."""
    d, end = re.escape(delimiter.encode()), rb"(?:\r\n|\n|\r|\Z)"
    if quote is None:
        return re.compile(rb"([^\r\n]*)" + end)
    q = re.escape(quote.encode())
    inside = rb"[^" + q + (rb"" if multiline else rb"\r\n") + rb"]"
    # The pattern is unambiguous, so a mismatch does not backtrack much. (Possessive quantifiers
    # would enforce that, but match incorrectly in Python 3.11.0 to 3.11.4.)
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
            f"`{name}` must be one ASCII character, not a letter, digit, period or line end. "
            f"Received: {name}={value!r}."
        )


def _texts(name: str, value: Any) -> tuple[str, ...]:
    several: list[Any] = list(value) if isinstance(value, list | tuple) else [None]  # pyright: ignore[reportUnknownArgumentType]
    if not all(isinstance(text, str) for text in several):
        raise ConfigurationError(f"`{name}` must be a list of strings. Received: {name}={value!r}.")
    return tuple(several)
