"""A file of 1 GB to HDFS and back through `storage`, against Hadoop's own client."""

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks._harness import Row, Side, compared, in_turn, rates, seconds
from tests.support.hdfs import HdfsCluster

from sparkwright.storage.files import open_to_read, write_atomically

_SIZE_BYTES = 1 << 30
_PIECE_BYTES = 4 << 20
_REPEATS = 3


def hdfs() -> Iterator[Row]:
    """MB/s of writing and reading; the start of Hadoop's client, a JVM, with and without."""
    with HdfsCluster() as cluster, tempfile.TemporaryDirectory() as name:
        local, back = Path(name) / "model", Path(name) / "back"
        piece = os.urandom(_PIECE_BYTES)
        with local.open("wb") as file:
            for _ in range(_SIZE_BYTES // _PIECE_BYTES):
                file.write(piece)
        # What costs the same for any size: a JVM and its first call.
        start_s = statistics.median(
            seconds(lambda: cluster.command("dfs", "-ls", "/")) for _ in range(_REPEATS)
        )
        steps: dict[str, Side] = {
            "write": lambda: _write(local, f"{cluster.url}/ours"),
            "-put": lambda: cluster.command("dfs", "-put", "-f", str(local), "/theirs"),
            "read": lambda: _read(f"{cluster.url}/ours", back),
            "-get": lambda: cluster.command("dfs", "-get", "-f", "/theirs", str(back)),
        }
        found = in_turn(_REPEATS, steps)
    for ours, theirs in (("write", "-put"), ("read", "-get")):
        for text, less_s in (("its start counted", 0.0), ("without its start", start_s)):
            copying = {ours: found[ours], theirs: [each - less_s for each in found[theirs]]}
            yield compared(
                f"1 GB to {ours}, against hdfs dfs {theirs}, {text}",
                *("MB/s", *rates(_SIZE_BYTES / 1e6, copying).values()),
                target=">= 0.5",
                runs={ours: found[ours], theirs: found[theirs], "start_s": start_s},
            )


def _write(path: Path, url: str) -> None:
    with path.open("rb") as source, write_atomically(url) as target:
        while block := source.read(_PIECE_BYTES):
            target.write(block)


def _read(url: str, path: Path) -> None:
    with open_to_read(url) as source, path.open("wb") as target:
        while block := source.read(_PIECE_BYTES):
            target.write(block)
