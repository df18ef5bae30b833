"""The package's own sources: their fingerprint, and an importable ZIP of them.

python -m sparkwright.shipping [FOLDER]
"""

import functools
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkwright._version import __version__

PACKAGE = "sparkwright"
# ZIP's earliest date, so that equal sources give equal bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)
Look = dict[str, Any]


def engine_finder() -> Callable[[str], Look]:
    """Return a function that locates the package on an executor without importing it.

    The executor may have no copy of the package, or another version. So the function is local,
    which makes Spark pickle it by value, and uses only the standard library.
    """

    def find(package: str) -> dict[str, Any]:
        import hashlib
        import importlib.util
        import re

        spec = importlib.util.find_spec(package)
        if spec is None or spec.loader is None or not spec.origin:
            return {"where": "", "version": "", "fingerprint": "", "files": {}}
        # Works for folders and ZIPs; `importlib.resources.files` would import the package.
        loader: Any = spec.loader
        pending = [(f"{package}/", loader.get_resource_reader(spec.name).files())]
        files: dict[str, bytes] = {}
        while pending:
            prefix, folder = pending.pop()
            for entry in folder.iterdir():
                if entry.name.startswith((".", "__pycache__")) or entry.name.endswith(".pyc"):
                    continue
                if entry.is_dir():
                    pending.append((f"{prefix}{entry.name}/", entry))
                else:
                    files[prefix + entry.name] = entry.read_bytes()
        digest = hashlib.sha256()
        for name in sorted(files):
            digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
        literal = re.search(rb'__version__ = "([^"]*)"', files.get(f"{package}/_version.py", b""))
        return {
            "where": spec.origin.removesuffix("/__init__.py"),
            "version": literal[1].decode() if literal else "",
            "fingerprint": digest.hexdigest()[:12],
            "files": files,
        }

    return find


@functools.cache
def own_engine() -> Look:
    """Return `engine_finder`'s description of this process' package; cached."""
    found = engine_finder()(PACKAGE)
    return {**found, "version": __version__}


def archive_name() -> str:
    """Return the file name of the ZIP, which is a function of the sources."""
    return f"{PACKAGE}-{own_engine()['fingerprint']}.zip"


def archive_bytes() -> bytes:
    """Return the bytes of the ZIP; equal sources give equal bytes."""
    files: dict[str, bytes] = own_engine()["files"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # World-readable: on YARN, a process of another user may read it.
            entry.external_attr = 0o644 << 16
            target.writestr(entry, files[name])
    return buffer.getvalue()


def write_archive(folder: str | Path) -> Path:
    """Write the ZIP into `folder`, creating the folder if missing; return the file's path."""
    target = Path(folder) / archive_name()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(archive_bytes())
    return target
