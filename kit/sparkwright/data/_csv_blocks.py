"""Read CSV files as decompressed UTF-8 blocks of whole records, one block in memory."""

import codecs
import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from sparkwright.data._csv_format import (
    CsvFormat,
    beginning,
    compression_of,
    line_count,
    readable,
)
from sparkwright.data._skipped import UnusableItem
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.files import open_file, open_to_read, store_errors

# Blocks of 1 to 4 MiB parse equally fast.
BLOCK_BYTES = 2 << 20
# A longer record means a binary file or an unclosed quote.
LONGEST_RECORD_BYTES = 64 << 20
HEAD_BYTES = 64 << 10
OPEN_QUOTE = "quote that is not closed"
# Bytes outside of an encoding become one that is never valid in UTF-8.
_INVALID = "sparkwright.invalid"
codecs.register_error(_INVALID, lambda error: ("\udcff", getattr(error, "end", 0)))

Read = Callable[[int], bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The first record's fields, and the size and number of lines before the data records."""

    fields: tuple[str, ...]
    size_bytes: int
    lines: int


@contextlib.contextmanager
def open_csv(url: str, form: CsvFormat) -> Generator[tuple[Read, BinaryIO]]:
    """Open a file; yield a reader of its text as UTF-8, and the file of its stored bytes."""
    with store_errors(url, "read"), open_file(url) as file:
        codec = compression_of(url)
        read: Read = file.read
        if codec is not None:
            import pyarrow as pa

            stored: Any = file
            stream: Any = pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), codec)
            read = stream.read
        yield (read if form.is_utf8 else _transcoded(read, form.encoding)), file


def _transcoded(read: Read, encoding: str) -> Read:
    decoder: Any = codecs.getincrementaldecoder(encoding)(_INVALID)

    def reader(size: int) -> bytes:
        while True:
            raw = read(size)
            text: str = decoder.decode(raw, final=not raw)
            if text or not raw:
                return text.encode(errors="surrogateescape")

    return reader


def read_head(read: Read, form: CsvFormat, url: str) -> tuple[Head, bytes]:
    """Read the head of a file; return it and the bytes read beyond it."""
    text = b""
    while True:
        more = read(max(HEAD_BYTES, len(text)))
        text += more
        lines = text.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
        # The last line may be incomplete: a final `\r` may be the first half of `\r\n`.
        whole = lines[form.skip_lines : len(lines) - bool(more)]
        first = next(form.records(whole), None)
        if first is not None and (not more or first.is_closed or not form.newlines_in_values):
            break
        if not more:
            after = f" after the {form.skip_lines} skipped ones (`skip_lines`)"
            raise UnusableItem(
                "empty file",
                f"{url}: a file must have a line{after if form.skip_lines else ''}. Received: "
                "none. Write it again.",
            )
        if len(text) > LONGEST_RECORD_BYTES:
            raise UnusableItem(
                "unusable header",
                f"{url}: the first line must end within {LONGEST_RECORD_BYTES} bytes. Received: "
                f"{beginning(text)}. Check that this is a CSV file.",
            )
    line = whole[first.begin]
    if not first.is_closed:
        raise UnusableItem("unusable header", f"{url}: {form.open_quote(line)}")
    if not first.ends_at_quotes:
        raise UnusableItem("unusable header", f"{url}: {form.text_after_quote(line)}")
    if any(field != readable(field) for field in first.fields):
        raise UnusableItem(
            "not in the encoding",
            f"{url}: the first line must be {form.encoding}. Received: {beginning(line)}. Set "
            "`encoding`.",
        )
    count = form.skip_lines + (first.end if form.header else 0)
    size = sum(map(len, lines[:count]))
    size += len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    return Head(fields=tuple(first.fields), size_bytes=size, lines=count), text[size:]


def limit_bytes(read: Read, size_bytes: int) -> Read:
    left = size_bytes

    def reader(size: int) -> bytes:
        nonlocal left
        more = read(min(size, left)) if left > 0 else b""
        left -= len(more)
        return more

    return reader


def blocks(
    read: Read, carried: bytes, form: CsvFormat, place: Callable[[int], str], log: SkipLog
) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of whole records and the lines before each; `carried` was read before."""
    buffer, lines = carried, 0
    while True:
        more = read(BLOCK_BYTES)
        buffer = buffer + more if buffer else more
        end = form.complete_end(buffer if more else buffer + b"\n")
        if block := buffer[:end]:
            yield block, lines
            lines, buffer = lines + line_count(block), buffer[end:]
        if not more:
            break
        if len(buffer) > LONGEST_RECORD_BYTES:
            log.skip(
                "record without an end",
                f"{place(lines)}: a record must end within {LONGEST_RECORD_BYTES} bytes. Received: "
                "a longer one. Look for an unclosed quote, or check that this is a CSV file.",
            )
            if form.newlines_in_values:
                return  # the start of the next record is unknown
            buffer = b""
            while more := read(BLOCK_BYTES):
                _, is_found, buffer = more.partition(b"\n")
                if is_found:
                    break
            lines += 1
    if buffer:
        message = f"{place(lines)}: {form.open_quote(buffer.splitlines()[0])}"
        log.skip(OPEN_QUOTE, message)


def line_begin(file: BinaryIO, at: int) -> int:
    """Return the position of the first line start at or after `at`, or the end of the file."""
    if at == 0:
        return 0
    position = file.seek(at - 1)
    while True:
        more = file.read(HEAD_BYTES)
        end = more.find(b"\n") + 1
        if end or not more:
            return position + end
        position += len(more)


def count_lines(url: str, until: int) -> int:
    """Count the line ends in the first `until` bytes of a file; an OSError names `url`."""
    with open_to_read(url) as file:
        read = limit_bytes(file.read, until)
        return sum(map(line_count, iter(lambda: read(BLOCK_BYTES), b"")))
