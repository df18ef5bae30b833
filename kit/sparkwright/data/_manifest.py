"""The manifest of an export, `manifest.json`.

It is written last and lists the valid files.
"""

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
_KNOWN_VERSIONS = (1, 2)  # version 1 has no CRC per file

# Flat column name -> (dtype, shape of one example): `DataSet.layout` in JSON types.
Columns = Mapping[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class MinibatchFile:
    """One file of an export."""

    path: str  # relative to `Manifest.folder`
    examples: int
    size_bytes: int
    crc32c: int | None = None  # of the whole file; None in manifests of version 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The content of an export.

    Attributes:
        batch_size: examples per file; one file may hold fewer.
        columns: flat column name -> (dtype, shape of one example).
        files: the files in order.
        folder: name of the folder of the files, next to the manifest.
        class_names: output name -> class names.
        fingerprint: fingerprint of the exported data; None if unknown or if files were removed.
        skipped: items that the source skipped with `on_error="skip"`.
        created: time of the export, ISO 8601 in UTC.
        versions: package -> version that wrote the export.
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
        """Number of examples in all files."""
        return sum(file.examples for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.size_bytes for file in self.files)

    def without(self, paths: set[str]) -> "Manifest":
        """Return a copy without the files `paths`; removing a file clears the fingerprint."""
        files = tuple(file for file in self.files if file.path not in paths)
        return self if files == self.files else replace(self, files=files, fingerprint=None)

    def to_json(self) -> str:
        """Return JSON text with one file per line; `from_json` is the inverse."""
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
        """Parse the output of `to_json` and validate every value.

        Args:
            content: JSON in UTF-8.
            url: URL of the manifest, for error messages.

        Raises:
            DataError: if `content` is not a manifest, has an unknown version or is damaged. The
                message names `url`.
        """
        try:
            fields: Any = strict_json(content)
            if not isinstance(fields, dict) or fields.get("format") != _FORMAT:  # pyright: ignore[reportUnknownMemberType]
                raise DataError("another kind of JSON file.")
            version: Any = fields.get("version")  # pyright: ignore[reportUnknownMemberType]
            if version not in _KNOWN_VERSIONS:
                raise DataError(
                    f"version {version!r}. This sparkwright reads versions up to {_VERSION}: "
                    "update it."
                )
            return cls._from_fields(fields)
        except DataError as error:
            raise DataError(f"{url} must be the manifest of an export. Received: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{url} must be an undamaged manifest of an export. Received: "
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
            raise ValueError("duplicate file")
        if "/" in _path(fields["folder"]):
            raise ValueError(f"{fields['folder']!r} is not the name of a folder")
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
            raise ValueError(
                f"`examples` is {fields['examples']}, but the files have {manifest.examples}"
            )
        return manifest


def columns_of(layout: Mapping[str, tuple[Any, tuple[int, ...]]]) -> Columns:
    """Convert `DataSet.layout` to the types of a manifest."""
    return {name: (str(dtype), shape) for name, (dtype, shape) in layout.items()}


def columns_text(columns: Columns) -> str:
    """Format columns for messages, such as `features/image: float32[28, 28]`."""
    return ", ".join(f"{name}: {dtype}{list(shape)}" for name, (dtype, shape) in columns.items())


def _count(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= 1 << 62:
        raise ValueError(f"{value!r} is not an integer of at least {least}")
    return value


def _dtype(value: Any) -> str:
    dtype = np.dtype(str(value))
    if dtype.kind not in "biuf" and value != "object":  # object arrays hold text
        raise ValueError(f"dtype {value!r} is neither numeric nor text")
    return str(dtype)


def _path(value: Any) -> str:
    if not isinstance(value, str) or {"", ".", ".."} & set(value.split("/")):
        raise ValueError(f"{value!r} is not a path inside the folder of files")
    if ":" in value or "\\" in value:
        raise ValueError(f"{value!r} is not a relative path with forward slashes")
    return value
