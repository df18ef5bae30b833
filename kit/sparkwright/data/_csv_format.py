"""CSV dialect options, and the records of CSV text as Python's `csv` module reads them.

PyArrow parses whole blocks. It does not tell lines of invalid records, and an unclosed quote takes
the rest of its block, so such blocks are read record by record.
"""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

MISSING_VALUES = ("", "NA", "NaN", "null")
_FIELD_BYTES = 1 << 30  # more than a record may have
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_LINE_FEED, _RETURN = 10, 13


class Record(NamedTuple):
    """The fields in the lines from `begin` to `end`; an open quote takes all lines that it can."""

    begin: int
    end: int
    fields: list[str]
    is_closed: bool
    # Whether each closing quote ends its field; `fields` is empty otherwise.
    ends_at_quotes: bool = True


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
    escape: str | None = option(
        default=None,
        label="Escape before quotes",
        none_text="quotes are doubled",
        help="Character before a quote in a quoted field, such as a backslash, which Spark writes. "
        "None: quotes are doubled.",
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
        if self.escape is not None:
            _check_sign("escape", self.escape)
            if self.escape in (self.quote, self.delimiter) or self.quote is None:
                raise ConfigurationError(
                    "`escape` must differ from `quote` and `delimiter`, and needs a quote. "
                    f"Received: escape={self.escape!r}, quote={self.quote!r}, "
                    f"delimiter={self.delimiter!r}."
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

    def records(self, lines: Sequence[bytes]) -> Iterator[Record]:
        """Yield the records of lines, without blank ones; invalid UTF-8 becomes surrogates."""
        texts = [self.doubled(line).decode(errors="surrogateescape") for line in lines]
        groups = [texts] if self.newlines_in_values else ([text] for text in texts)
        options: dict[str, Any] = {"delimiter": self.delimiter, "quoting": csv.QUOTE_NONE}
        if self.quote is not None:
            options |= {"quotechar": self.quote, "quoting": csv.QUOTE_MINIMAL, "strict": True}
        # Not restored: the limit is the process's, and threads may read at the same time.
        csv.field_size_limit(max(_FIELD_BYTES, csv.field_size_limit()))
        first = begin = 0
        for group in groups:
            # Only a record with an open quote takes the empty text at the end, too.
            reader = csv.reader([*group, ""], **options)
            last = first + len(group)
            while True:
                fields, is_valid = list[str](), True
                try:
                    fields = next(reader)
                except StopIteration:
                    break
                except csv.Error:  # text after a closing quote, or none for an open one
                    is_valid = False
                end = first + reader.line_num
                # A line of tab or space delimiters has several empty fields.
                if len(fields) > 1 or (begin < last and texts[begin].strip(" \t\r\n")):
                    yield Record(begin, min(end, last), fields, end <= last, is_valid)
                begin = end
            first = begin = last

    def complete_end(self, block: bytes) -> int:
        """Return the end of the last complete record of a block; 0 if there is none."""
        # A final `\r` may be the first half of `\r\n`.
        end = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, -1) + 1
        if not end or not self.newlines_in_values or not self.has_quotes(block):
            return end
        quotes = self.well_formed_quotes(block[:end])
        if quotes is not None and not self._has_escapes(block):
            data = np.frombuffer(block, np.uint8)[:end]
            ends = np.flatnonzero((data == _LINE_FEED) | (data == _RETURN))
            outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
            return int(outside[-1]) + 1 if outside.size else 0
        lines = block[:end].splitlines(keepends=True)
        opened = (record.begin for record in self.records(lines) if not record.is_closed)
        return sum(map(len, lines[: next(opened, len(lines))]))

    def well_formed_quotes(self, text: bytes) -> NDArray[np.int64] | None:
        """Positions of quotes that open at starts and close at ends of fields, or None."""
        data = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(data == ord(self.quote or ""))
        before, after = quotes[0::2] - 1, quotes[1::2] + 1
        beside = np.take(data, np.concatenate([before[before >= 0], after[after < len(data)]]))
        fits = np.zeros(256, np.bool_)  # several times as fast as `isin`
        fits[np.frombuffer(f"{self.delimiter}{self.quote}\r\n".encode(), np.uint8)] = True
        return quotes if np.take(fits, beside).all() else None

    def doubled(self, text: bytes) -> bytes:
        """Return a text with doubled quotes in place of escaped ones."""
        if not self._has_escapes(text):
            return text
        sign, quote = (self.escape or "").encode(), (self.quote or "").encode()

        def change(match: re.Match[bytes]) -> bytes:
            pairs, is_escaped = divmod(len(match[1]), 2)
            return sign * pairs + quote * (1 + is_escaped)

        return re.sub(b"(" + re.escape(sign) + b"+)" + re.escape(quote), change, text)

    def _has_escapes(self, text: bytes) -> bool:
        return self.escape is not None and f"{self.escape}{self.quote}".encode() in text

    def has_quotes(self, block: bytes) -> bool:
        """Whether a block has a quote character."""
        return self.quote is not None and self.quote.encode() in block

    def text_after_quote(self, line: bytes) -> str:
        """Return the message on a record in which text follows a closing quote."""
        return (
            f"a quote must end its value. Received: {beginning(line)}, with text after a closing "
            "quote. Write quotes in values twice; if a backslash stands before each, as Spark "
            'writes, set `escape="\\\\"`.'
        )

    def open_quote(self, line: bytes) -> str:
        """Return the message on the record that begins with `line` and has an open quote."""
        where, remedy = " on its line", "Close it, or allow such values: `newlines_in_values=True`"
        if self.newlines_in_values:
            where, remedy = "", "Close it; otherwise the rest of the file is part of the value"
        return f"a quoted value must end{where}. Received: {beginning(line)}. {remedy}."


def beginning(line: bytes) -> str:
    """Return the first 40 characters of a line, for messages."""
    text = line[:160].rstrip(b"\r\n").decode(errors="backslashreplace")
    return repr(text[:40]) + (" …" if len(text) > 40 else "")


def readable(field: str) -> str:
    """Return a field of a `Record` with invalid UTF-8 as escapes."""
    if field.isascii():
        return field
    return field.encode(errors="surrogateescape").decode(errors="backslashreplace")


def number_of(text: str) -> float | None:
    """Parse `text` as a number as PyArrow's parser does; None if it is not a number."""
    given = text.strip(" \t")
    if not given.isascii() or "_" in given or given != given.strip():
        return None
    try:
        return float(given)
    except ValueError:
        return None


def compression_of(url: str) -> str | None:
    """Return the codec given by the extension of `url`, or None."""
    return next((codec for end, codec in _COMPRESSED.items() if url.lower().endswith(end)), None)


def line_count(text: bytes) -> int:
    r"""Count the line ends in `text`: `\n`, `\r\n` or `\r`."""
    # Several times as fast as `bytes.count`.
    lines = int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LINE_FEED))
    returns = text.count(b"\r") if b"\r" in text else 0
    return lines + returns - (text.count(b"\r\n") if returns else 0)


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
