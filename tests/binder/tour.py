"""Executes the tour as JupyterLab does, and measures the server, its kernel and all below it."""

import json
import time

import nbformat
from tests.binder.lab_server import LabServer
from tests.binder.process_tree import ProcessTree, Watch

TOUR = "notebooks/00_tour.ipynb"
MOST_BYTES = 1.7 * 2**30  # of the 2 GB that Binder gives
TIMEOUT_S = 400.0


def replayed(command, *, repository, environment, reports):
    """Start JupyterLab by `command`, execute the tour in it; returns figures and results.

    Memory is the sum of the proportional set sizes (PSS) of all processes: shared pages count once.
    """
    notebook = nbformat.read(repository / TOUR, as_version=4)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    server = LabServer(
        command,
        folder=repository,
        environment={**environment, "SPARKWRIGHT_REPORTS": str(reports)},
        log=reports / "server.log",
    )
    with server:
        tree = ProcessTree(server.process.pid)
        before = tree.sample()
        began_s = time.monotonic()
        with Watch(tree) as watch:
            server.execute(TOUR, sources, timeout_s=TIMEOUT_S)
        wall_s = time.monotonic() - began_s
    figures = {
        "wall_s": round(wall_s, 1),
        "cpu_s": round(watch.last.cpu_s - before.cpu_s, 1),
        "server_mb": round(before.pss_bytes / 1e6),
        "peak_mb": round(watch.peak.pss_bytes / 1e6),
        "peak_by_process_mb": {
            name: round(size / 1e6) for name, size in watch.peak.by_process.items()
        },
        "samples": watch.count,
    }
    print(json.dumps(figures, indent=2))
    return {**figures, "results": json.loads((reports / "tour.json").read_text())}


def check_memory(replay):
    """Fail unless all processes together, JupyterLab's server among them, kept the limit."""
    by_process = replay["peak_by_process_mb"]
    shown = {name: replay[name] for name in ("cpu_s", "wall_s", "peak_mb", "server_mb")}
    assert replay["server_mb"] > 50, shown
    assert replay["peak_mb"] >= replay["server_mb"] + 500, shown  # kernel and Spark count, too
    assert replay["peak_mb"] <= MOST_BYTES / 1e6, (shown, by_process)
