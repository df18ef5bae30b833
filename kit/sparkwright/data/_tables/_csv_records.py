"""Where records of CSV text begin and end, and how many fields each has.

Quotes count only at the beginning of a field, as RFC 4180 has it; a doubled quote inside is one
quote. Whole blocks are looked at with NumPy; only records with quotes go through a regular
expression, and only where a block has something wrong with it.
"""

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._dataset import Array

_LINE_FEED, _RETURN = 10, 13
_SPACES = np.frombuffer(b" \t", np.uint8)
_LINE_END = re.compile(rb"\r\n|\n|\r")


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


def complete_end(block: bytes, *, delimiter: bytes, quote: bytes | None, multiline: bool) -> int:
    """Where the last complete record of `block` ends; 0 if none does.

    Args:
        block: text that begins with a record.
        delimiter: one byte.
        quote: one byte, or None.
        multiline: whether quoted values may hold line ends.
    """
    if not multiline or quote is None or quote not in block:
        end = block.rfind(b"\n") + 1
        # A last `\r` may be half of a `\r\n`.
        return end or block.rfind(b"\r", 0, -1) + 1
    data = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(data == quote[0])
    if not _well_formed(data, quotes, delimiter[0], quote[0]):
        return _complete_end_by_records(block, delimiter, quote)
    ends = np.flatnonzero(data == _LINE_FEED)
    outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(outside[-1]) + 1 if outside.size else 0


def is_plain(
    block: bytes, rows: int, *, delimiter: bytes, quote: bytes | None, multiline: bool
) -> bool:
    """Whether a parser that found `rows` records cannot have misread a quote as one that goes on.

    No is no proof that something is wrong: look at `records` then.
    """
    if quote is None or quote not in block:
        return True
    if multiline:
        data = np.frombuffer(block, np.uint8)
        quotes = np.flatnonzero(data == quote[0])
        return len(quotes) % 2 == 0 and _well_formed(data, quotes, delimiter[0], quote[0])
    return rows == line_count(block) + (block[-1] not in (_LINE_FEED, _RETURN))


def _well_formed(data: Array, quotes: NDArray[np.int64], delimiter: int, quote: int) -> bool:
    """Whether quotes open only where fields begin and close only where they end.

    Then, and only then, a line end is outside of quotes if the number of quotes before it is even.
    """
    neighbours = np.array([delimiter, quote, _LINE_FEED, _RETURN], np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    before = data[opening[opening > 0] - 1]
    after = data[closing[closing < len(data) - 1] + 1]
    return bool(np.isin(before, neighbours).all() and np.isin(after, neighbours).all())


def _complete_end_by_records(block: bytes, delimiter: bytes, quote: bytes) -> int:
    pattern = _record(delimiter, quote, multiline=True)
    end = 0
    while end < len(block):
        match = pattern.match(block, end)
        # Without a line end the record may go on; a last `\r` may be half of a `\r\n`.
        if match is None or match.end() == match.end(1):
            break
        if match.end() == len(block) and block[-1] == _RETURN:
            break
        end = match.end()
    return end


def records(
    block: bytes, *, delimiter: bytes, quote: bytes | None, multiline: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All records of `block` but blank ones.

    Returns:
        Start, end (without the line end) and number of fields of each; the number is 0 where a
        quoted value does not end.
    """
    if not block:
        none = np.zeros(0, np.int64)
        return none, none, none
    data = np.frombuffer(block, np.uint8)
    if multiline and quote is not None and quote in block:
        starts, ends = _multiline_bounds(block, delimiter, quote)
    else:
        starts, ends = _line_bounds(block, data)
    blank = starts == ends
    spaced = np.flatnonzero(~blank & np.isin(data[np.minimum(starts, len(data) - 1)], _SPACES))
    for index in spaced.tolist():
        text = block[starts[index] : ends[index]]
        # With tabs or spaces between fields, a line of them is a record of empty fields.
        blank[index] = not text.strip() and delimiter not in text
    starts, ends = starts[~blank], ends[~blank]
    delimiters = np.flatnonzero(data == delimiter[0])
    fields = np.searchsorted(delimiters, ends) - np.searchsorted(delimiters, starts) + 1
    if quote is not None and quote in block:
        quotes = np.flatnonzero(data == quote[0])
        quoted = np.searchsorted(quotes, ends) > np.searchsorted(quotes, starts)
        for index in np.flatnonzero(quoted).tolist():
            text = block[starts[index] : ends[index]]
            fields[index] = _field_count(text, delimiter, quote, multiline=multiline)
    return starts, ends, fields


def _line_bounds(block: bytes, data: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if b"\r" in block:
        found = [(match.start(), match.end()) for match in _LINE_END.finditer(block)]
        before = np.array([start for start, _ in found], np.int64)
        after = np.array([end for _, end in found], np.int64)
    else:
        before = np.flatnonzero(data == _LINE_FEED)
        after = before + 1
    starts = np.concatenate([np.zeros(1, np.int64), after])
    return starts, np.concatenate([before, np.full(1, len(data), np.int64)])


def _multiline_bounds(
    block: bytes, delimiter: bytes, quote: bytes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    pattern = _record(delimiter, quote, multiline=True)
    while at < len(block):
        match = pattern.match(block, at)
        if match is None:  # a quoted value that does not end
            starts.append(at)
            ends.append(len(block))
            break
        starts.append(at)
        ends.append(match.end(1))
        at = max(match.end(), at + 1)
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _field_count(text: bytes, delimiter: bytes, quote: bytes, *, multiline: bool) -> int:
    match = _record(delimiter, quote, multiline=multiline).fullmatch(text)
    if match is None:
        return 0
    fields = _field(delimiter, quote, multiline=multiline)
    count = at = 0
    while True:
        match = fields.match(text, at)
        if match is None:
            return 0
        count, at = count + 1, match.end() + 1
        if match.end() == len(text):
            return count


@lru_cache(maxsize=32)
def _field(delimiter: bytes, quote: bytes, *, multiline: bool) -> re.Pattern[bytes]:
    return re.compile(_field_text(delimiter, quote, multiline=multiline))


@lru_cache(maxsize=32)
def _record(delimiter: bytes, quote: bytes, *, multiline: bool) -> re.Pattern[bytes]:
    """Group 1 is the record, the match takes its line end too."""
    field = _field_text(delimiter, quote, multiline=multiline)
    return re.compile(
        rb"(" + field + rb"(?:" + re.escape(delimiter) + field + rb")*)(?:\r\n|\n|\r|\Z)"
    )


def _field_text(delimiter: bytes, quote: bytes, *, multiline: bool) -> bytes:
    d, q = re.escape(delimiter), re.escape(quote)
    inside = rb"[^" + q + (rb"" if multiline else rb"\r\n") + rb"]"
    # There is one way to read a record, so a failure is found without trying others. (Possessive
    # quantifiers would say so, but match wrongly in Python 3.11.0 to 3.11.4.)
    return (
        rb"(?:" + q + inside + rb"*(?:" + q + q + inside + rb"*)*" + q + rb"(?!" + q + rb")"
        rb"[^" + d + rb"\r\n]*|(?!" + q + rb")[^" + d + rb"\r\n]*)"
    )
