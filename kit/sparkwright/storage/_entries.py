"""Files in ZIP archives of others: no more is unpacked than the archive's directory announces."""

import zipfile

_KNOWN = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The content of one file; hold `entry.file_size` against a limit first.

    `ZipFile.read` unpacks whatever comes and then compares. Other compressions than these two
    cannot be unpacked piece by piece.

    Args:
        archive: open for reading.
        entry: of its directory.

    Raises:
        BadZipFile: if it is compressed in another way, has another length, or is damaged.
        Exception: what else zipfile raises for damage: EOFError, RuntimeError, zlib.error.
    """
    if entry.compress_type not in _KNOWN:
        raise zipfile.BadZipFile(
            f"{entry.filename!r} has the compression {entry.compress_type}, and must be stored or "
            "deflated"
        )
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)  # to its end, where the checksum is compared
    if len(content) != entry.file_size:
        raise zipfile.BadZipFile(
            f"{entry.filename!r} has not the {entry.file_size} bytes that the directory announces"
        )
    return content
