import os
import sys
from pathlib import Path

import pytest
from tests.binder.image import ROOT, copy_repository
from tests.binder.tour import check_memory, replayed

pytestmark = [pytest.mark.binder, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_tour_and_server_stay_within_binder_memory(tmp_path):
    copy_repository(tmp_path / "repository")
    start = tmp_path / "repository" / "binder" / "start"
    bin_folder = Path(sys.executable).parent
    replay = replayed(
        ["taskset", "--cpu-list", "0", start, sys.executable, "-m", "jupyterlab"],
        repository=tmp_path / "repository",
        environment={
            **os.environ,
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'kit'}:{ROOT / 'widgets'}",
            "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
            "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        },
        reports=tmp_path,
    )
    assert replay["results"]["state"] == "done"
    check_memory(replay)
