"""A module names the notebook that it tests as `NOTEBOOK`; each runs once, two at a time.

No report needs a network.

`SHORTER` in a module replaces texts of the notebook, such as numbers of epochs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scripts import started_ahead

from sparkwright_widgets._offline_html import outside_resources

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

# `python -m sparkwright_widgets.report`, which starts sooner without what tests/conftest.py blocks.
_REPORT = """
import sys
sys.modules["rfc3987_syntax"] = None
from sparkwright_widgets.report import main
sys.exit(main())
"""


def _name(module):
    """What the notebook calls its results: `03_csv.ipynb` writes `csv.json`."""
    return Path(module.NOTEBOOK).stem.partition("_")[2]


def _executed(module, folder):
    """The folder, with everything that executing the notebook leaves."""
    notebook = NOTEBOOKS / module.NOTEBOOK
    if shorter := getattr(module, "SHORTER", None):
        text = notebook.read_text(encoding="utf-8")
        assert all(given in text for given in shorter)
        for given, replacement in shorter.items():
            text = text.replace(given, replacement)
        notebook = folder / notebook.name
        notebook.write_text(text, encoding="utf-8")
    completed = subprocess.run(
        [
            *(sys.executable, "-c", _REPORT, notebook),
            *("--output", folder / f"{_name(module)}.html"),
        ],
        env={
            **os.environ,
            "SPARKWRIGHT_REPORTS": str(folder),
            "SPARKWRIGHT_DEMO_WORKERS": "2",
            "SPARKWRIGHT_DEMO_EPOCHS": "15",
        },
        capture_output=True,
        text=True,
        timeout=getattr(module, "TIMEOUT_S", 240),
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return folder


@pytest.fixture(scope="session")
def executions(request, tmp_path_factory):
    """The notebooks of all selected tests, in the order of the tests."""

    def execute(module):
        return _executed(module, tmp_path_factory.mktemp("a place for reports"))

    with started_ahead(request, execute, attribute="NOTEBOOK", at_a_time=2) as started:
        yield started


@pytest.fixture(scope="module")
def reports(request, executions):
    """The folder with everything that executing the notebook leaves."""
    return executions[request.module].result()


@pytest.fixture(scope="module")
def results(request, reports):
    return json.loads((reports / f"{_name(request.module)}.json").read_text())


@pytest.fixture(scope="module")
def html(request, reports):
    text = (reports / f"{_name(request.module)}.html").read_text()
    assert outside_resources(text) == []
    return text
