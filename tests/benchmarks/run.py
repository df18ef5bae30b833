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
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks._harness import show  # noqa: E402

from sparkwright.doctor._probe import versions  # noqa: E402

# Name -> module and function.
BENCHMARKS = {
    **{name: ("training", name) for name in ("lenet", "start", "peers", "ring", "workers")},
    "driver": ("training", "by_driver"),
    "csv": ("csv_files", "csv_files"),
    **{
        name: (name, name)
        for name in (
            *("images", "sharing", "coordinator", "scaling", "exported", "inference"),
            *("auc", "driver_memory", "endings"),
        )
    },
}


def main():
    """Run what ONLY names (default: all), print and write."""
    only = [name for name in os.environ.get("ONLY", "").split(",") if name]
    rows = []
    for name in only or BENCHMARKS:
        print(f"… {name}", file=sys.stderr, flush=True)
        module, function = BENCHMARKS[name]
        measure = getattr(import_module(f"tests.benchmarks.{module}"), function)
        rows += show({"benchmark": name, **row} for row in measure())
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "versions": versions(),
        "rows": rows,
    }
    target = ROOT / "reports" / "benchmarks.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(document, indent=2))
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
