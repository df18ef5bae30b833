"""The manifest of an export, `manifest.json`: written last, it names the files that are valid."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError

from ._skipped import Skipped

MANIFEST_NAME = "manifest.json"
_FORMAT = "sparkwright minibatches"
_VERSION = 2
_KNOWN_VERSIONS = (1, 2)  # files have no CRC in the first

# Flat column name -> (dtype, shape of one example): `DataSet.layout` in words that JSON has.
Columns = Mapping[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class MinibatchFile:
    """One file of an export."""

    path: str  # below the manifest's folder of files
    examples: int
    size_bytes: int
    crc32c: int | None = None  # of its bytes; None where an earlier version wrote it


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What an export holds.

    Attributes:
        batch_size: examples of each file, but for one that may hold fewer.
        columns: flat column name -> (dtype, shape of one example).
        files: in order.
        folder: name of the folder of files, beside the manifest.
        class_names: output name -> names of its classes.
        fingerprint: of the data that was exported; None if unknown, or after files have been
            removed.
        skipped: what the source left out because `on_error="skip"` allowed it.
        created: when, ISO 8601 in UTC.
        versions: package -> version that wrote it.
    """

    batch_size: int
    columns: Columns
    files: tuple[MinibatchFile, ...]
    folder: str
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    fingerprint: str | None = None
    skipped: Skipped = field(default_factory=Skipped)
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def examples(self) -> int:
        """Examples in all files."""
        return sum(file.examples for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    def without(self, paths: set[str]) -> "Manifest":
        """The manifest after these files were removed: no longer that of the exported data."""
        files = tuple(file for file in self.files if file.path not in paths)
        return self if files == self.files else replace(self, files=files, fingerprint=None)

    def to_json(self) -> str:
        """As text, one file a line; `from_json` is the inverse."""
        fields = {
            "format": _FORMAT,
            "version": _VERSION,
            "created": self.created,
            "versions": dict(self.versions),
            "batch_size": self.batch_size,
            "examples": self.examples,
            "columns": {
                name: {"dtype": dtype, "shape": list(shape)}
                for name, (dtype, shape) in self.columns.items()
            },
            "class_names": {name: list(names) for name, names in self.class_names.items()},
            "fingerprint": self.fingerprint,
            "skipped": self.skipped.to_dict(),
            "folder": self.folder,
        }
        head = json.dumps(fields, indent=1, ensure_ascii=False).removesuffix("\n}")
        lines = ",\n".join(
            "  " + json.dumps([file.path, file.examples, file.size_bytes, file.crc32c])
            for file in self.files
        )
        return f'{head},\n "files": [\n{lines}\n ]\n}}\n'

    @classmethod
    def from_json(cls, content: bytes, *, url: str) -> "Manifest":
        """Read what `to_json` wrote; every value is checked.

        Args:
            content: UTF-8.
            url: where it lies, for the errors.

        Raises:
            DataError: naming `url`, if it is no manifest, a newer version's or damaged.
        """
        try:
            fields: Any = strict_json(content)
            if not isinstance(fields, dict) or fields.get("format") != _FORMAT:  # pyright: ignore[reportUnknownMemberType]
                raise DataError("a JSON file of another kind.")
            version: Any = fields.get("version")  # pyright: ignore[reportUnknownMemberType]
            if version not in _KNOWN_VERSIONS:
                raise DataError(f"version {version!r}, known is {_VERSION}; update sparkwright.")
            return cls._from_fields(fields)
        except DataError as error:
            raise DataError(f"{url} must be the manifest of an export. Received: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{url} must be the manifest of an export, as it was written. Received: "
                f"{type(error).__name__}: {error}. Export again with `overwrite=True`."
            ) from None

    @classmethod
    def _from_fields(cls, fields: Any) -> "Manifest":
        files = tuple(
            MinibatchFile(
                path=_path(path),
                examples=_count(rows, 1),
                size_bytes=_count(size, 1),
                crc32c=_count(crc[0]) if crc and crc[0] is not None else None,
            )
            for path, rows, size, *crc in fields["files"]
        )
        if len({file.path for file in files}) != len(files):
            raise ValueError("a file is named twice")
        if "/" in _path(fields["folder"]):
            raise ValueError(f"{fields['folder']!r} is no name of a folder")
        fingerprint, skipped = fields["fingerprint"], fields["skipped"]
        manifest = cls(
            batch_size=_count(fields["batch_size"], 1),
            columns={
                str(name): (_dtype(c["dtype"]), tuple(_count(n, 1) for n in c["shape"]))
                for name, c in fields["columns"].items()
            },
            files=files,
            folder=fields["folder"],
            class_names={
                str(name): tuple(map(str, names)) for name, names in fields["class_names"].items()
            },
            fingerprint=None if fingerprint is None else str(fingerprint),
            skipped=Skipped(
                counts={str(reason): _count(n) for reason, n in skipped["counts"].items()},
                first=tuple(map(str, skipped["first"])),
            ),
            created=str(fields["created"]),
            versions={str(name): str(v) for name, v in fields["versions"].items()},
        )
        if manifest.examples != fields["examples"]:
            raise ValueError(f"{fields['examples']} examples, but {manifest.examples} in its files")
        return manifest


def columns_of(layout: Mapping[str, tuple[Any, tuple[int, ...]]]) -> Columns:
    """`DataSet.layout` as a manifest has it.

    Example:
        >>> columns_of({"features/image": (np.dtype(np.float32), (28, 28))})
        {'features/image': ('float32', (28, 28))}
    """
    return {name: (str(dtype), shape) for name, (dtype, shape) in layout.items()}


def columns_text(columns: Columns) -> str:
    """For messages: `features/image: float32[28, 28]`."""
    return ", ".join(f"{name}: {dtype}{list(shape)}" for name, (dtype, shape) in columns.items())


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= 1 << 62:
        raise ValueError(f"{value!r} is no whole number from {least}")
    return value


def _dtype(value: Any) -> str:
    dtype = np.dtype(str(value))
    if dtype.kind not in "biuf" and value != "object":  # which is text
        raise ValueError(f"dtype {value!r} is none of numbers or text")
    return str(dtype)


def _path(value: Any) -> str:
    if not isinstance(value, str) or {"", ".", ".."} & set(value.split("/")):
        raise ValueError(f"{value!r} is no path below the folder of files")
    if ":" in value or "\\" in value:
        raise ValueError(f"{value!r} is no plain path")
    return value
