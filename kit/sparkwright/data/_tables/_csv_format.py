"""How a CSV file is written: delimiter, quotes, header, encoding, what stands for nothing."""

import codecs
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sparkwright.errors import ConfigurationError, DataError

MISSING_VALUES = ("", "NA", "NaN", "null")
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvFormat:
    """How a CSV file is written.

    Attributes:
        header: whether the first line names the columns; default True.
        column_names: names to use, instead of those in the header or where there is none; default
            None: the header's, or `column_0`, `column_1` and so on.
        delimiter: one ASCII character; default a comma.
        quote: one ASCII character around values that hold delimiters, or None; default `"`.
        skip_lines: lines to leave out at the beginning of each file, before the header; default 0.
        newlines_in_values: whether quoted values may go over several lines; default False.
        encoding: of the text; default "utf-8". A byte order mark is left out.
        missing_values: texts that stand for a missing value.
    """

    header: bool = True
    column_names: tuple[str, ...] | None = None
    delimiter: str = ","
    quote: str | None = '"'
    skip_lines: int = 0
    newlines_in_values: bool = False
    encoding: str = "utf-8"
    missing_values: tuple[str, ...] = MISSING_VALUES

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            ConfigurationError: naming the option and what it received.
        """
        _check_sign("delimiter", self.delimiter)
        if self.quote is not None:
            _check_sign("quote", self.quote)
            if self.quote == self.delimiter:
                raise ConfigurationError(
                    "`quote` and `delimiter` must differ. "
                    f"Received: quote={self.quote!r}, delimiter={self.delimiter!r}."
                )
        for name in ("header", "newlines_in_values"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(
                    f"`{name}` must be True or False. Received: {name}={getattr(self, name)!r}."
                )
        lines: Any = self.skip_lines
        if isinstance(lines, bool) or not isinstance(lines, int) or lines < 0:
            raise ConfigurationError(
                f"`skip_lines` must be an integer of at least 0. Received: skip_lines={lines!r}."
            )
        _check_texts("column_names", self.column_names, optional=True)
        _check_texts("missing_values", self.missing_values)
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
    def delimiter_byte(self) -> bytes:
        """As it stands in the file."""
        return self.delimiter.encode()

    @property
    def quote_byte(self) -> bytes | None:
        """As it stands in the file."""
        return None if self.quote is None else self.quote.encode()

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
        lines = io.StringIO(record, newline="")
        if self.quote is None:
            found = csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE)
        else:
            found = csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote)
        try:
            return next(found, [])
        except csv.Error as error:
            raise DataError(
                f"the first line must be fields of ordinary length. Received: {record[:40]!r} …, "
                f"of which Python says: {error}. Is the delimiter {self.delimiter!r}?"
            ) from None


def compression_of(url: str) -> str | None:
    """The codec that the ending of `url` names, if any.

    Example:
        >>> compression_of("a/b.csv.gz"), compression_of("a/b.csv")
        ('gzip', None)
    """
    return next((codec for end, codec in _COMPRESSED.items() if url.lower().endswith(end)), None)


def _check_sign(name: str, value: Any) -> None:
    fits = isinstance(value, str) and len(value) == 1 and value.isascii()
    if not fits or value in "\r\n\0":
        raise ConfigurationError(
            f"`{name}` must be one ASCII character and no line end. Received: {name}={value!r}."
        )


def _check_texts(name: str, value: Any, *, optional: bool = False) -> None:
    if value is None and optional:
        return
    several = cast(Sequence[Any], value) if isinstance(value, tuple) else None
    if several is None or not all(isinstance(text, str) for text in several):
        raise ConfigurationError(f"`{name}` must be several texts. Received: {name}={value!r}.")
