"""Each test module executes the one notebook that it names as `NOTEBOOK`, once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def _name(request: pytest.FixtureRequest) -> str:
    """What the notebook calls its results: `03_csv.ipynb` writes `csv.json`."""
    notebook: Path = request.module.NOTEBOOK
    return notebook.stem.partition("_")[2]


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with everything that executing the notebook leaves."""
    folder = tmp_path_factory.mktemp("a place for reports")
    completed = subprocess.run(
        [
            *(sys.executable, "-m", "sparkwright_widgets.report", request.module.NOTEBOOK),
            *("--output", folder / f"{_name(request)}.html"),
        ],
        env={**os.environ, "SPARKWRIGHT_REPORTS": str(folder), "SPARKWRIGHT_DEMO_WORKERS": "2"},
        capture_output=True,
        text=True,
        timeout=getattr(request.module, "TIMEOUT_S", 240),
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return folder


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, reports: Path) -> Any:
    return json.loads((reports / f"{_name(request)}.json").read_text())


@pytest.fixture(scope="module")
def html(request: pytest.FixtureRequest, reports: Path) -> str:
    return (reports / f"{_name(request)}.html").read_text()
