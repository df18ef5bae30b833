"""Benchmarks: each figure beside the baseline of the same run, as a table and as JSON.

    make bench                      everything
    make bench ONLY=lenet,ring      some of it

The machine is shared and noisy, so baselines are measured in turn with what they are compared
with, and the median counts. Nothing is asserted.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks import training  # noqa: E402
from tests.benchmarks._harness import Row, show  # noqa: E402
from tests.benchmarks.auc import auc  # noqa: E402
from tests.benchmarks.coordinator import coordinator  # noqa: E402
from tests.benchmarks.csv_files import csv_files  # noqa: E402
from tests.benchmarks.driver_memory import driver_memory  # noqa: E402
from tests.benchmarks.encoding import encoding  # noqa: E402
from tests.benchmarks.exported import exported  # noqa: E402
from tests.benchmarks.hdfs import hdfs  # noqa: E402
from tests.benchmarks.images import images  # noqa: E402
from tests.benchmarks.inference import inference  # noqa: E402
from tests.benchmarks.jax_backend import jax  # noqa: E402
from tests.benchmarks.live import live  # noqa: E402
from tests.benchmarks.mesh_growth import mesh_growth  # noqa: E402
from tests.benchmarks.scaling import scaling  # noqa: E402
from tests.benchmarks.sharing import sharing  # noqa: E402
from tests.benchmarks.sweeps import sweeps  # noqa: E402
from tests.benchmarks.timeline import timeline  # noqa: E402
from tests.benchmarks.trackers import trackers  # noqa: E402

BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "lenet": training.lenet,
    "driver": training.by_driver,
    "start": training.start,
    "peers": training.peers,
    "ring": training.ring,
    "workers": training.workers,
    "panel": training.panel,
    "encoding": encoding,
    "images": images,
    "mesh": mesh_growth,
    "sharing": sharing,
    "coordinator": coordinator,
    "scaling": scaling,
    "timeline": timeline,
    "trackers": trackers,
    "sweeps": sweeps,
    "exported": exported,
    "csv": csv_files,
    "inference": inference,
    "auc": auc,
    "jax": jax,
    "driver_memory": driver_memory,
    "hdfs": hdfs,
    "live": live,
}
_PACKAGES = ("sparkwright", "tensorflow", "keras", "pyspark", "numpy", "pyarrow")


def main() -> None:
    """Run what ONLY names (default: all), print and write."""
    only = [name for name in os.environ.get("ONLY", "").split(",") if name]
    rows: list[Row] = []
    for name in only or BENCHMARKS:
        print(f"… {name}", file=sys.stderr, flush=True)
        rows += show({"benchmark": name, **row} for row in BENCHMARKS[name]())
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **{n: version(n) for n in _PACKAGES}},
        "rows": rows,
    }
    target = ROOT / "reports" / "benchmarks.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(document, indent=2))
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
