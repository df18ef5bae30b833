"""The live panel in a real browser: what 10,000 updates leave behind, and what one costs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks._harness import ROOT, Row, row


def live() -> Iterator[Row]:
    """Memory of kernel and page around 10,000 updates; the kernel's share of a core at 10 Hz."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "live.json"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests/browser/live_measurements.py"],
            env={**os.environ, "SPARKWRIGHT_LIVE_OUT": str(out)},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        if not out.exists():
            return  # no Chromium here
        found = json.loads(out.read_text())
    for name in ("kernel", "browser"):
        before, after = found["before"][name], found["after"][name]
        what = f"{name} after {found['updates']:,} updates of the panel"
        yield row(what, after, "MiB", before, target="<= 1.10")
    cores = found["kernel_cores"]
    yield row("kernel's cores, 400 rows/s told at 10 Hz", cores, "cores", target="<= 0.05")
