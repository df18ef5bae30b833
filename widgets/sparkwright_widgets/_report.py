"""The command behind `python -m sparkwright_widgets.report`: a notebook in, a report out."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from ._format import duration_text
from ._notebook_run import NotebookFailure, run_notebook
from ._offline_html import offline_html, outside_resources
from ._table import text_table

_INTERRUPTED = 130  # what a shell reports for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute a notebook and write its report.

    Returns:
        The exit status: 0 if every cell ran, 1 if one failed, 130 if it was interrupted.
    """
    options = _parser().parse_args(arguments)
    notebook_path: Path = options.notebook
    output: Path = options.output or Path("reports") / f"{notebook_path.stem}.html"
    if not notebook_path.is_file():
        _say(f"There is no notebook at this path. Received: {notebook_path}.")
        return 2
    output.parent.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.read(notebook_path, as_version=4)
    began_s, made_at = time.monotonic(), datetime.now().astimezone()
    _say(f"Running {notebook_path} from top to bottom.")
    failure = run_notebook(
        notebook, folder=notebook_path.parent.resolve(), timeout_s=options.timeout_s, say=_say
    )
    took = duration_text(time.monotonic() - began_s)
    html = offline_html(
        notebook, name=notebook_path.name, made_at=made_at, took=took, failure=failure
    )
    output.write_text(html, encoding="utf-8")
    _write_notebook(notebook, output.with_suffix(".ipynb"))
    for address in outside_resources(html):
        _say(f"The report is not complete without the network: it shows {address}.")
    if failure:
        _tell_failure(failure)
    results = options.results or output.with_suffix(".json")
    _tell_places(output, took=took, results=results, newer_than_s=made_at.timestamp())
    if failure is None:
        return 0
    return _INTERRUPTED if failure.was_interrupted else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sparkwright_widgets.report",
        description="Execute a notebook and write an offline HTML report without its code.",
    )
    parser.add_argument("notebook", type=Path, help="the notebook; it is not modified")
    parser.add_argument("--output", type=Path, help="default: reports/NAME.html")
    parser.add_argument("--timeout-s", type=float, help="limit for each cell; default: none")
    parser.add_argument(
        "--results", type=Path, help="JSON file that the notebook writes; default: next to OUTPUT"
    )
    return parser


def _write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Keep the executed notebook, without the state of its widgets: nobody can use that later."""
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, path)


def _tell_failure(failure: NotebookFailure) -> None:
    _say(f"\nCode cell {failure.cell} did not succeed: {failure.reason}")
    for line in failure.source.splitlines():
        _say(f"    {line}")
    if failure.details:
        _say(failure.details)
    _say("")


def _tell_places(report: Path, *, took: str, results: Path, newer_than_s: float) -> None:
    """Say where everything is; results of an earlier run are not passed off as this one's."""
    _say(f"Finished after {took}.")
    places = [("report", report), ("notebook", report.with_suffix(".ipynb"))]
    if results.is_file() and results.stat().st_mtime >= newer_than_s - 1:
        fields: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
        places.append(("results", results))
        rows = [[name, _value_text(value)] for name, value in fields.items()]
        _say(text_table(["result", "value"], rows, text_columns=(1,)))
    rows = [[name, path.resolve()] for name, path in places]
    _say(text_table(["where", "path"], rows, text_columns=(1,)))


def _value_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
