"""A file of 1 GB to HDFS and back through `storage`, against Hadoop's own client."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.hdfs import HdfsCluster

from sparkwright.storage.files import open_to_read, write_atomically

_SIZE_BYTES = 1 << 30
_PIECE_BYTES = 4 << 20
_REPEATS = 3


def hdfs() -> Iterator[dict[str, Any]]:
    """MB/s of writing and reading; the start of Hadoop's client, a JVM, with and without."""
    with HdfsCluster() as cluster, tempfile.TemporaryDirectory() as name:
        local, back = Path(name) / "model", Path(name) / "back"
        piece = os.urandom(_PIECE_BYTES)
        with local.open("wb") as file:
            for _ in range(_SIZE_BYTES // _PIECE_BYTES):
                file.write(piece)
        # What costs the same for any size: a JVM and its first call.
        start_s = statistics.median(
            _seconds(lambda: cluster.command("dfs", "-ls", "/")) for _ in range(_REPEATS)
        )
        steps: dict[str, Callable[[], Any]] = {
            "write": lambda: _write(local, f"{cluster.url}/ours"),
            "-put": lambda: cluster.command("dfs", "-put", "-f", str(local), "/theirs"),
            "read": lambda: _read(f"{cluster.url}/ours", back),
            "-get": lambda: cluster.command("dfs", "-get", "-f", "/theirs", str(back)),
        }
        found: dict[str, list[float]] = {step: [] for step in steps}
        for _ in range(_REPEATS):
            for step, act in steps.items():
                found[step].append(_seconds(act))
    for ours, theirs in (("write", "-put"), ("read", "-get")):
        for text, less_s in (("its start counted", 0.0), ("without its start", start_s)):
            pairs = zip(found[ours], found[theirs], strict=True)
            yield {
                "what": f"1 GB to {ours}, against hdfs dfs {theirs}, {text}",
                "value": _SIZE_BYTES / 1e6 / statistics.median(found[ours]),
                "unit": "MB/s",
                "baseline": _SIZE_BYTES / 1e6 / (statistics.median(found[theirs]) - less_s),
                "ratio": statistics.median((b - less_s) / a for a, b in pairs),
                "target": ">= 0.5",
                "runs": {ours: found[ours], theirs: found[theirs], "start_s": start_s},
            }


def _seconds(act: Callable[[], Any]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


def _write(path: Path, url: str) -> None:
    with path.open("rb") as source, write_atomically(url) as target:
        while block := source.read(_PIECE_BYTES):
            target.write(block)


def _read(url: str, path: Path) -> None:
    with open_to_read(url) as source, path.open("wb") as target:
        while block := source.read(_PIECE_BYTES):
            target.write(block)
