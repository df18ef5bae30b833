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
from sparkwright.data._dataset import Array
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
        label="First line names the columns",
        help="Otherwise they are column_0, column_1, and so on.",
    )
    column_names: tuple[str, ...] | None = option(
        default=None,
        form=False,
        help="Names in place of the header's. None: the header's, or `column_0`, `column_1`, …",
    )
    delimiter: str = option(
        default=",",
        label="Between values",
        words=(("tab", "\t"), ("space", " ")),
        help="One ASCII character between fields.",
    )
    quote: str | None = option(
        default='"',
        label="Around values",
        none_text="no quotes",
        help="One ASCII character around fields. None: no quotes.",
    )
    skip_lines: int = option(
        default=0, minimum=0, help="Lines to leave out at the beginning of each file."
    )
    newlines_in_values: bool = option(
        default=False,
        label="Values in quotes may go over several lines",
        help="Such files cannot be read in parts.",
    )
    encoding: str = option(
        default="utf-8", help="Of the text, as utf-8 or latin-1. A byte order mark is left out."
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
        """The fields of one record, as text.

        Raises:
            DataError: if one is absurdly long; without the name of the file.
        """
        # `newline=""`: only the reader knows which line ends are inside quotes.
        rows = self.rows(io.StringIO(record, newline=""))
        try:
            return next(rows, [])
        except csv.Error as error:
            raise DataError(
                f"the first line must be fields of ordinary length. Received: {record[:40]!r} …, "
                f"of which Python says: {error}. Is the delimiter {self.delimiter!r}?"
            ) from None

    def rows(self, lines: Any, *, strict: bool = False) -> Any:
        """A `csv.reader` of this format."""
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote or '"',
            quoting=quoting,
            strict=strict,
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
        pattern, end = self._pattern, 0
        while end < len(block):
            match = pattern.match(block, end)
            # Without a line end the record may go on; a last `\r` may be half of a `\r\n`.
            if match is None or match.end() == match.end(1):
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
        """All records of a block but blank ones.

        Returns:
            Start, and end without the line end, of each; whether all its quoted values end.
        """
        if not block:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
        data = np.frombuffer(block, np.uint8)
        quote = self._quote_in(block)
        if self.newlines_in_values and quote is not None:
            starts, ends, closed = self._records_of_lines(block)
        else:
            starts, ends = _lines(block, data)
            closed = np.ones(len(starts), np.bool_)
        blank = starts == ends
        spaced = np.isin(data[np.minimum(starts, len(data) - 1)], (ord(" "), ord("\t")))
        for index in np.flatnonzero(~blank & spaced).tolist():
            text = block[starts[index] : ends[index]]
            # With tabs or spaces between fields, a line of them is a record of empty fields.
            blank[index] = not text.strip() and self.delimiter.encode() not in text
        starts, ends, closed = starts[~blank], ends[~blank], closed[~blank]
        if quote is not None and not self.newlines_in_values:
            quotes, pattern = np.flatnonzero(data == quote), self._pattern
            quoted = np.searchsorted(quotes, ends) > np.searchsorted(quotes, starts)
            for index in np.flatnonzero(quoted).tolist():
                closed[index] = pattern.fullmatch(block, starts[index], ends[index]) is not None
        return starts, ends, closed

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

    def _records_of_lines(self, block: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Records that may go over several lines; one that does not end takes all the rest."""
        bounds: list[tuple[int, int, bool]] = []
        at, pattern = 0, self._pattern
        while at < len(block):
            match = pattern.match(block, at)
            if match is None:
                bounds.append((at, len(block), False))
                break
            bounds.append((at, match.end(1), True))
            at = max(match.end(), at + 1)
        starts, ends, closed = zip(*bounds, strict=True)
        return np.array(starts, np.int64), np.array(ends, np.int64), np.array(closed, np.bool_)

    @property
    def _pattern(self) -> re.Pattern[bytes]:
        return _record(self.delimiter, self.quote or '"', self.newlines_in_values)


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


def _lines(block: bytes, data: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if b"\r" in block:
        found = [match.span() for match in _LINE_END.finditer(block)]
        before, after = np.array(found, np.int64).reshape(-1, 2).T
    else:
        before = np.flatnonzero(data == _LINE_FEED)
        after = before + 1
    return np.append(0, after), np.append(before, len(data))


@lru_cache(maxsize=32)
def _record(delimiter: str, quote: str, multiline: bool) -> re.Pattern[bytes]:
    """Group 1 is the record, the match takes its line end too."""
    d, q = re.escape(delimiter.encode()), re.escape(quote.encode())
    inside = rb"[^" + q + (rb"" if multiline else rb"\r\n") + rb"]"
    # There is one way to read a record, so a failure is found without trying others. (Possessive
    # quantifiers would say so, but match wrongly in Python 3.11.0 to 3.11.4.)
    field = (
        rb"(?:" + q + inside + rb"*(?:" + q + q + inside + rb"*)*" + q + rb"(?!" + q + rb")"
        rb"[^" + d + rb"\r\n]*|(?!" + q + rb")[^" + d + rb"\r\n]*)"
    )
    return re.compile(rb"(" + field + rb"(?:" + d + field + rb")*)(?:\r\n|\n|\r|\Z)")


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
