"""The image is made and the tour is executed in it, on one core; Binder's limits are kept.

Binder ends a kernel that needs more than 2 GB, and gives a session about one core. So
here, and only here, figures are asserted. Set SPARKWRIGHT_BINDER_ENVIRONMENT to a folder to keep
the Python environment there for the next time.
"""

import os
from pathlib import Path

import pytest
from tests.binder.image import new_image
from tests.binder.tour import check_memory, replayed as measured

MOST_CPU_S = 60.0


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
    return measured(
        image.start_command("jupyter", "lab"),
        repository=image.repository,
        environment=image.variables,
        reports=reports,
    )


@replayed
def test_tour_succeeds_in_the_image(replay):
    assert replay["results"]["workers"] == 1
    assert replay["results"]["accuracy"] > 0.9


@replayed
def test_tour_stays_within_binder_limits(replay):
    assert replay["cpu_s"] <= MOST_CPU_S, replay["wall_s"]
    check_memory(replay)
