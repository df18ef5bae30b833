import io
import os
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.cases import cases
from tests.data.pictures import encoded, folder_of_classes, pixels, write

import sparkwright as sw
from sparkwright.data import (
    FileBatch,
    MaskFile,
    PatternLabel,
    _file_batches as format_of_batches,
    read_file_batch,
    write_file_batches,
)
from sparkwright.data._image_batches import read_batches
from sparkwright.data._image_reader import ImageReader
from sparkwright.data._images import without_masks
from sparkwright.data._previewing import preview
from sparkwright.data.pieces import SkipLog
from sparkwright.data.sources import DataSource
from sparkwright.storage.listing import list_files

OPTIONS = {
    "size": (8, 8), "label": None, "classes": None, "one_hot": False, "threads": 2,
}  # fmt: skip


def png_chunk(kind, content):
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png_of(width, height):
    """A tiny file that claims so many pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + png_chunk(b"IDAT", zlib.compress(bytes(1000)))
        + png_chunk(b"IEND", b"")
    )


def flipped(content, at):
    place = int(at * len(content))
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


PNG, JPEG = encoded(pixels(0)), encoded(pixels(0), "JPEG")
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
FILES = {
    "missing": (None, "unreadable file", "does not exist"),
    "zero bytes": (b"", "empty file", "with 0 bytes"),
    "text": (b"hello world", "no image", "begin with b'hello wo'"),
    "a million zeros": (bytes(1_000_000), "no image", "1,000,000 bytes"),
    "postscript, which would start a program": (EPS, "no image", "b'%!PS-Ado'"),
    "jpeg cut in half": (JPEG[: len(JPEG) // 2], "damaged image", "Truncated File"),
    "png cut near its end": (PNG[:-100], "damaged image", "truncated"),
    "png with a flipped bit": (flipped(PNG, 0.5), "damaged image", ""),
    "a bomb of 10^10 pixels": (png_of(100_000, 100_000), "too many pixels", "89,478,485 pixels"),
    "more pixels than Pillow takes without a warning": (
        png_of(89_478_486, 1), "too many pixels", "89478486 x 1",
    ),
    "32-bit integers": (
        encoded(Image.fromarray(np.zeros((4, 4), np.int32)), "TIFF"), "unusable depth", "'I'",
    ),
}  # fmt: skip


def assert_reported(files, bad, reason, text, *, examples, **options):
    """With "raise" an error that names `bad`; with "skip" one count and the other examples."""
    reader = ImageReader.of(**{**OPTIONS, **options})
    with pytest.raises(sw.DataError) as caught:
        list(reader.read_files(files, SkipLog("raise")))
    message = str(caught.value)
    assert bad in message
    assert text in message
    assert "Received: " in message or "does not exist" in message
    assert len(message) < 600
    log = SkipLog("skip")
    found = list(reader.read_files(files, log))
    assert sum(map(len, found)) == examples
    assert log.skipped.total == 1
    assert reason in next(iter(log.skipped.counts))
    assert bad in log.skipped.first[0]


@cases("case", *FILES)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bad_file_is_named_or_skipped(tmp_path, case):
    content, reason, text = FILES[case]
    bad = tmp_path / "bad one.jpg"
    if content is not None:
        bad.write_bytes(content)
    good = [str(write(tmp_path / name, pixels(1))) for name in ("a.png", "b.jpg")]
    files = [good[0], str(bad), good[1]]
    assert_reported(files, str(bad), reason, text, examples=2)


def fails(url):
    return {"good": 1}[Path(url).stem]


def uneven(url):
    return [1] * (3 if Path(url).stem == "bad" else 2)


LABELS = {
    "unknown folder": (
        {"label": "parent", "classes": ["cat", "dog"]}, "unknown class", "Received: 'bad'",
    ),
    "name that the pattern does not split": (
        {"label": PatternLabel(pattern="oo"), "classes": ["g"]}, "no label", "does not match",
    ),
    "a function that fails": ({"label": fails}, "no label", "KeyError: 'bad'"),
    "a number beyond the classes": (
        {"label": lambda url: 2 if Path(url).stem == "bad" else 0, "classes": ["cat", "dog"]},
        "unknown class", "from 0 to 1. Received: 2",
    ),
    "arrays of different shape": ({"label": uneven}, "wrong shape", "int32[3]"),
}  # fmt: skip


@cases("case", *LABELS)
def test_a_bad_label_is_named_or_skipped(tmp_path, case):
    options, reason, text = LABELS[case]
    good = [str(write(tmp_path / "cat/good.png", pixels(n))) for n in range(2)]
    bad = str(write(tmp_path / "bad/bad.png", pixels(2)))
    assert_reported([*good, bad], bad, reason, text, examples=2, **options)


@cases(
    "mask, options, reason, text",
    (None, {}, "unreadable", "does not exist"),
    (b"", {}, "empty", "0 bytes"),
    (encoded(pixels(0)), {}, "unusable mask", "mode='RGB'"),
    (encoded(pixels(0)[..., 0])[:80], {}, "damaged", "truncated"),
    (encoded(np.full((8, 8), 3, np.uint8)), {"classes": ["sky", "sea"]}, "unknown class", "3"),
    ids=["missing", "empty", "colors", "cut", "value beyond the classes"],
)
def test_a_bad_mask_is_named_or_skipped(tmp_path, mask, options, reason, text):
    good = str(write(tmp_path / "good.jpg", pixels(0)))
    write(tmp_path / "good.png", np.zeros((8, 8), np.uint8))
    image = str(write(tmp_path / "bad.jpg", pixels(1)))
    if mask is not None:
        (tmp_path / "bad.png").write_bytes(mask)
    assert_reported(
        [good, image], str(tmp_path / "bad.png"), reason, text,
        examples=1, label=MaskFile(), **options,
    )  # fmt: skip


def test_an_image_is_not_its_own_mask(tmp_path):
    good = str(write(tmp_path / "good.jpg", pixels(0)))
    write(tmp_path / "good.png", np.zeros((8, 8), np.uint8))
    alone = str(write(tmp_path / "alone.png", np.zeros((8, 8), np.uint8)))
    listed = without_masks(list_files(str(tmp_path)), MaskFile())
    assert [file.url for file in listed] == [alone, good]
    masks = {"label_from": "mask", "height": 8, "width": 8}
    shown = preview(DataSource(format="images", url=str(tmp_path), options=masks))
    assert shown.in_all == 2
    assert "a mask must be another file" in str(shown.problem)
    assert_reported(
        [file.url for file in listed], alone, "unusable mask", 'MaskFile(suffix="_mask")',
        examples=1, label=MaskFile(),
    )  # fmt: skip


def archive_of(*entries, index=b"file:/a", how=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        if index is not None:
            archive.writestr("originalUris.txt", index, zipfile.ZIP_STORED)
        for name, content in entries:
            archive.writestr(name, content)
    return file.getvalue()


def patched(content, at, new):
    """With other bytes in the second entry of its directory."""
    start = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 1) + at
    return content[:start] + new + content[start + len(new) :]


def claims_too_little(of_bytes=1_000_000):
    """The directory says that a file that unfolds to `of_bytes` has 5 bytes."""
    content = archive_of(("file_0.png", bytes(of_bytes)), how=zipfile.ZIP_DEFLATED)
    return patched(content, 24, struct.pack("<I", 5))


def repeated():
    with pytest.warns(UserWarning, match="Duplicate"):
        return archive_of(("originalUris.txt", b"file:/a"))


FIRST = ("file_0.png", PNG)
WHOLE = archive_of(FIRST, index=b"file:/cat/a.png")
ARCHIVES = {
    "zero bytes": (lambda: b"", "0 bytes"),
    "cut in half": (lambda: WHOLE[: len(WHOLE) // 2], "not a zip file"),
    "no index": (lambda: archive_of(FIRST, index=None), "1 files, such as 'file_0.png"),
    "index alone": (archive_of, "1 lines and 0 files"),
    "more lines than files": (lambda: archive_of(FIRST, index=b"a\nb"), "2 lines and 1 files"),
    "a number left out": (
        lambda: archive_of(FIRST, ("file_2.png", PNG), index=b"a\nb"), "numbered from 0",
    ),
    "a huge number": (lambda: archive_of((f"file_{10**30}.png", PNG)), "file_NUMBER"),
    "another file": (lambda: archive_of(("../evil.sh", b"rm")), "'../evil.sh'"),
    "index that is no UTF-8": (lambda: archive_of(FIRST, index=b"\xff"), "must be UTF-8"),
    "an entry twice": (repeated, "for each line of it, once"),
    "300 MiB in its directory": (
        lambda: patched(archive_of(FIRST), 24, struct.pack("<I", 300 << 20)), "256 MiB",
    ),
}  # fmt: skip
ENTRIES = {
    "a flipped bit": (lambda: flipped(WHOLE, 0.4), "Bad CRC"),
    "encrypted": (lambda: patched(archive_of(FIRST), 8, b"\x01"), "encrypted"),
    "bzip2": (lambda: archive_of(FIRST, how=zipfile.ZIP_BZIP2), "stored or deflated"),
    "more than the directory says": (claims_too_little, "Bad CRC"),
}


@cases("case", *ARCHIVES, *ENTRIES)
def test_a_bad_archive_is_named_or_skipped(tmp_path, case):
    make, text = {**ARCHIVES, **ENTRIES}[case]
    bad, good = tmp_path / "bad.zip", tmp_path / "good.zip"
    bad.write_bytes(make())
    good.write_bytes(WHOLE)
    with pytest.raises(sw.DataError) as caught:
        read_file_batch(str(bad))
    assert str(bad) in str(caught.value)
    assert text in str(caught.value)
    reader = ImageReader.of(**OPTIONS)
    log = SkipLog("skip")
    found = list(read_batches([str(bad), str(good)], log, reader=reader))
    assert sum(map(len, found)) == 1
    reason = "damaged archive" if case in ARCHIVES else "damaged entry"
    assert log.skipped.counts == {reason: 1}
    with pytest.raises(sw.DataError, match=r"bad\.zip") as caught:
        list(read_batches([str(bad)], SkipLog("raise"), reader=reader))
    assert str(caught.value).count("on_error") == 1


def test_images_after_a_damaged_image_are_read(tmp_path):
    images = [(f"file_{n}.png", encoded(pixels(n))) for n in range(6)]
    uris = "\n".join(f"file:/cat/{n}.png" for n in range(6)).encode()
    content = bytearray(archive_of(*images, index=uris))
    content[content.index(images[2][1]) + 50] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(content)
    reader, log = ImageReader.of(**OPTIONS), SkipLog("skip")
    found = list(read_batches([str(tmp_path / "a.zip")], log, reader=reader))
    assert sum(map(len, found)) == 5
    assert log.skipped.counts == {"damaged entry": 1}
    assert "file_2.png (file:/cat/2.png)" in log.skipped.first[0]
    loader = sw.data.ImageBatchLoader(size=(8, 8), label=None, on_error="skip")
    assert len(loader(str(tmp_path / "a.zip"))) == 5


def test_no_more_bytes_are_unpacked_than_the_directory_declares():
    bomb = claims_too_little(of_bytes=30_000_000)
    assert len(bomb) < 100_000
    tracemalloc.start()
    with pytest.raises(sw.DataError, match="Bad CRC"):
        FileBatch.from_bytes(bomb)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 3_000_000


def test_decompression_bomb_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(format_of_batches, "BATCH_BYTES", 1 << 20)
    entries = [(f"file_{n}.png", bytes(1 << 18)) for n in range(5)]
    bomb = archive_of(*entries, index=b"a\nb\nc\nd\ne", how=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10_000
    (tmp_path / "bomb.zip").write_bytes(bomb)
    with pytest.raises(sw.DataError, match=r"bomb\.zip must hold at most .*1 MiB together"):
        read_file_batch(str(tmp_path / "bomb.zip"))


def test_error_for_an_image_in_an_archive_names_its_origin(tmp_path):
    (tmp_path / "in/cat").mkdir(parents=True)
    (tmp_path / "in/cat/a b.png").write_bytes(b"hello")
    (url,) = write_file_batches(str(tmp_path / "in"), str(tmp_path / "out"))
    with pytest.raises(sw.DataError) as caught:
        list(read_batches([url], SkipLog("raise"), reader=ImageReader.of(**OPTIONS)))
    assert f"file_0.png (file:{tmp_path}/in/cat/a%20b.png) in {url}" in str(caught.value)


def test_no_files_to_read_or_pack_raises(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(sw.DataError, match=r"at least one image.*extensions bmp"):
        sw.data.from_images(None, str(tmp_path), size=(8, 8))
    with pytest.raises(sw.DataError, match=r"ends in `\.zip`"):
        sw.data.from_image_batches(None, str(tmp_path), size=(8, 8))
    with pytest.raises(sw.DataError, match="at least one file to pack"):
        write_file_batches(str(tmp_path), str(tmp_path / "out"), extensions=["png"])
    for call in (sw.data.from_images, sw.data.from_image_batches):
        with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
            call(None, str(tmp_path / "nowhere"), size=(8, 8))
    with pytest.raises(sw.ConfigurationError, match="must not be a MaskFile"):
        sw.data.from_image_batches(None, "/x", size=(8, 8), label=MaskFile())


def test_a_flat_folder_is_rejected_with_a_hint_at_the_pattern(tmp_path):
    for name in ("cat_0.png", "dog_0.png"):
        write(tmp_path / name, pixels(0))
    with pytest.raises(sw.DataError, match=r"only .*PatternLabel\(pattern=\"_\"\)"):
        sw.data.from_images(None, str(tmp_path), size=(8, 8))
    with pytest.raises(sw.DataError, match="the pattern does not match the name"):
        sw.data.from_images(None, str(tmp_path), size=(8, 8), label=PatternLabel(pattern="-"))


def test_file_too_large_for_a_batch_raises_before_reading(tmp_path):
    folder = folder_of_classes(tmp_path / "in")
    with (folder / "large.bin").open("wb") as file:
        os.truncate(file.fileno(), 300 << 20)  # takes no room on the disk
    with pytest.raises(sw.DataError, match=r"256 MiB each .* Use a smaller batch size"):
        write_file_batches(str(folder), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
