"""The engine's own sources: their fingerprint, and a ZIP of them that Python imports from.

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
# ZIP's earliest date: the same sources make the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)
Look = dict[str, Any]


def engine_finder() -> Callable[[str], Look]:
    """A function that looks for the engine where it is called, without importing it.

    Spark carries it to executors that may have no engine, or another one. So it is made inside
    this function, which has it pickled whole, and uses nothing but the standard library.
    """

    def find(package: str) -> dict[str, Any]:
        import hashlib
        import importlib.util
        import re

        spec = importlib.util.find_spec(package)
        if spec is None or spec.loader is None or not spec.origin:
            return {"where": "", "version": "", "fingerprint": "", "files": {}}
        # Of a folder and of a ZIP alike; `importlib.resources.files` would import the package.
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
    """The engine that this process runs, as `engine_finder` describes it; read once."""
    found = engine_finder()(PACKAGE)
    return {**found, "version": __version__}


def archive_name() -> str:
    """Of the ZIP; the same for the same sources, and only for these."""
    return f"{PACKAGE}-{own_engine()['fingerprint']}.zip"


def archive_bytes() -> bytes:
    """The ZIP: the same bytes for the same sources."""
    files: dict[str, bytes] = own_engine()["files"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Readable by all: on YARN another user's process may read it.
            entry.external_attr = 0o644 << 16
            target.writestr(entry, files[name])
    return buffer.getvalue()


def write_archive(folder: str | Path) -> Path:
    """Write the ZIP into `folder`, which is made if need be; returns its path."""
    target = Path(folder) / archive_name()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(archive_bytes())
    return target
