"""The image is made and the tour is executed in it, on one core; Binder's limits are kept.

Binder ends a kernel that needs more than 2 GB, and gives a session about one core. So
here, and only here, figures are asserted. Set SPARKWRIGHT_BINDER_ENVIRONMENT to a folder to keep
the Python environment there for the next time.
"""

import json
import os
import shutil
import time
from pathlib import Path

import nbformat
import pytest
from tests.binder.image import apt_has, apt_packages, new_image
from tests.binder.lab_server import LabServer
from tests.binder.process_tree import ProcessTree, Watch

TOUR = "notebooks/00_tour.ipynb"
MOST_CPU_S = 60.0
MOST_BYTES = 1.8e9
TIMEOUT_S = 400.0


def replayed(test):
    """Marks a test that needs the image."""
    for mark in ("binder", "spark", "slow"):
        test = getattr(pytest.mark, mark)(test)
    return pytest.mark.timeout(1800)(test)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    kept = os.environ.get("SPARKWRIGHT_BINDER_ENVIRONMENT")
    image = new_image(
        tmp_path_factory.mktemp("binder image"), None if kept is None else Path(kept).resolve()
    )
    image.build()
    return image


@pytest.fixture(scope="module")
def replay(image, tmp_path_factory):
    """Everything measured while the tour is executed."""
    reports = tmp_path_factory.mktemp("reports")
    notebook = nbformat.read(image.repository / TOUR, as_version=4)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    server = LabServer(
        image.start_command("jupyter", "lab"),
        folder=image.repository,
        environment={**image.variables, "SPARKWRIGHT_REPORTS": str(reports)},
        log=reports / "server.log",
    )
    with server:
        tree = ProcessTree(server.process.pid)
        before = tree.sample()
        began_s = time.monotonic()
        with Watch(tree) as watch:
            outputs = server.execute(TOUR, sources, timeout_s=TIMEOUT_S)
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
    return {
        **figures,
        "outputs": outputs,
        "results": json.loads((reports / "tour.json").read_text()),
    }


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="there is no apt here")
@pytest.mark.parametrize("name", apt_packages())
def test_apt_can_install_what_the_image_asks_for(name):
    assert apt_has(name)


@replayed
def test_the_tour_ends_well_in_the_image(replay):
    assert replay["results"]["workers"] == 1
    assert replay["results"]["accuracy"] > 0.9


@replayed
def test_the_tour_keeps_binders_limits(replay):
    shown = {name: replay[name] for name in ("cpu_s", "wall_s", "peak_mb", "peak_by_process_mb")}
    assert replay["cpu_s"] <= MOST_CPU_S, shown
    assert replay["peak_mb"] <= MOST_BYTES / 1e6, shown
