"""Each test module names one notebook as `NOTEBOOK`; each is executed once, two at a time.

A notebook alone leaves half of two cores idle while processes start one after another.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_AT_A_TIME = 2


def _name(module: ModuleType) -> str:
    """What the notebook calls its results: `03_csv.ipynb` writes `csv.json`."""
    notebook: Path = module.NOTEBOOK
    return notebook.stem.partition("_")[2]


def _executed(module: ModuleType, folder: Path) -> Path:
    """The folder, with everything that executing the notebook leaves."""
    completed = subprocess.run(
        [
            *(sys.executable, "-m", "sparkwright_widgets.report", module.NOTEBOOK),
            *("--output", folder / f"{_name(module)}.html"),
        ],
        env={**os.environ, "SPARKWRIGHT_REPORTS": str(folder), "SPARKWRIGHT_DEMO_WORKERS": "2"},
        capture_output=True,
        text=True,
        timeout=getattr(module, "TIMEOUT_S", 240),
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return folder


@pytest.fixture(scope="session")
def executions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[ModuleType, Future[Path]]]:
    """The notebooks of all selected tests, in the order of the tests."""
    selected = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and "executions" in item.fixturenames
    ]
    modules = dict.fromkeys(item.module for item in selected)
    pool = ThreadPoolExecutor(_AT_A_TIME)
    try:
        yield {
            module: pool.submit(_executed, module, tmp_path_factory.mktemp("a place for reports"))
            for module in modules
        }
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest, executions: dict[ModuleType, Future[Path]]) -> Path:
    """The folder with everything that executing the notebook leaves."""
    return executions[request.module].result()


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, reports: Path) -> Any:
    return json.loads((reports / f"{_name(request.module)}.json").read_text())


@pytest.fixture(scope="module")
def html(request: pytest.FixtureRequest, reports: Path) -> str:
    return (reports / f"{_name(request.module)}.html").read_text()
