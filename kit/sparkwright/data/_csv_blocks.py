"""Read CSV files as decompressed UTF-8 blocks of whole records, one block in memory."""

import codecs
import contextlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from sparkwright.data._csv_format import CsvFormat, compression_of, line_count, line_end
from sparkwright.data.pieces import SkipLog
from sparkwright.errors import DataError
from sparkwright.storage.files import open_file, open_to_read, store_errors

# Blocks of 1 to 4 MiB parse equally fast.
BLOCK_BYTES = 2 << 20
# A longer record means a binary file or an unclosed quote.
LONGEST_RECORD_BYTES = 64 << 20
HEAD_BYTES = 64 << 10

Read = Callable[[int], bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The first record's fields, and the size and number of lines before the data records."""

    fields: tuple[str, ...]
    size_bytes: int
    lines: int


class EmptyFileError(Exception):
    """Raised for a file without header and records."""


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
    decoder: Any = codecs.getincrementaldecoder(encoding)()
    trouble: UnicodeDecodeError | None = None

    def reader(size: int) -> bytes:
        nonlocal trouble
        while trouble is None:
            before = decoder.getstate()
            raw = read(size)
            try:
                text: str = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                # Return the text before the invalid byte; the next call raises the error.
                trouble, text = error, _text_before(decoder, before, error)
            if text or not (raw or trouble):
                return text.encode()
        raise trouble

    return reader


def _text_before(decoder: Any, state: tuple[bytes, int], error: UnicodeDecodeError) -> str:
    decoder.setstate((b"", state[1]))  # `error.object` starts with the bytes pending before
    try:
        return decoder.decode(error.object[: error.start])
    except UnicodeDecodeError:
        return ""


def read_head(read: Read, form: CsvFormat) -> tuple[Head, bytes]:
    """Read the head of a file; return it and the bytes read beyond it."""
    text = b""
    while True:
        more = read(max(HEAD_BYTES, len(text)))
        text += more
        found = _head_of(text, form, over=not more)
        if found is not None:
            return found, text[found.size_bytes :]
        if not more:
            raise EmptyFileError
        if len(text) > LONGEST_RECORD_BYTES:
            raise DataError(
                f"the first line must end within {LONGEST_RECORD_BYTES} bytes. Received: a line "
                f"that begins with {text[:40]!r}. Check that this is a CSV file."
            )


def _head_of(text: bytes, form: CsvFormat, *, over: bool) -> Head | None:
    """Parse the head; None if `text` does not contain all of it."""
    at = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    for _ in range(form.skip_lines):
        end = line_end(text, at)
        # A final `\r` may be the first half of `\r\n`.
        if end is None or (end == len(text) and text[-1:] == b"\r" and not over):
            return None
        at = end
    begun = text[at:]
    end = len(begun) if over else form.complete_end(begun)
    starts, ends, _ = form.records(begun[:end])
    if not len(starts):
        return None
    start, stop = int(starts[0]), int(ends[0])
    after = 0
    if form.header:
        # Includes the header's line end and blank lines before it.
        after = stop + (2 if begun[stop : stop + 2] == b"\r\n" else 1 if stop < len(begun) else 0)
    return Head(
        fields=tuple(form.fields(begun[start:stop].decode())),
        size_bytes=at + after,
        lines=form.skip_lines + line_count(begun[:after]),
    )


def limit_bytes(read: Read, size_bytes: int) -> Read:
    """Limit `read` to `size_bytes`."""
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
    """Yield blocks of whole records, each with the number of lines before it.

    `carried` holds the bytes read so far. `place` maps a line number, from 0, to its location in
    messages.
    """
    buffer, lines = carried, 0
    wrong = None
    while True:
        try:
            more = read(BLOCK_BYTES)
        except UnicodeDecodeError as error:
            wrong, more = error, b""
        buffer = buffer + more if buffer else more
        is_last = not (more or wrong)
        end = len(buffer) if is_last else form.complete_end(buffer)
        if end:
            yield buffer[:end], lines
            lines += 0 if is_last else line_count(buffer[:end])
            buffer = buffer[end:]
        if wrong is not None:
            # Not every encoding allows finding the start of the next character.
            log.skip(
                "not in the encoding",
                f"{place(lines + line_count(buffer))}: the text must be {form.encoding}. Received: "
                f"{wrong_bytes(wrong)}. Set `encoding`; the rest of the file cannot be read.",
            )
        if not more:
            return
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


def wrong_bytes(error: UnicodeDecodeError) -> str:
    """Return the bytes that could not be decoded, and the reason."""
    return f"{error.object[error.start : error.end][:8]!r}, {error.reason}"


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
