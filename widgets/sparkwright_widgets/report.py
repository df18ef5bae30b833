"""Execute a notebook and write its report: `python -m sparkwright_widgets.report --help`."""

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

from sparkwright.errors import ConfigurationError, SparkwrightError
from sparkwright.storage.files import write_bytes

from ._format import duration_text, short_number
from ._notebook_run import NotebookFailure, failure_in, has_been_executed, run_notebook, time_taken
from ._offline_html import offline_html, outside_resources
from ._reports._parameters import parameterized, parameters_of
from ._reports._pdf import find_chromium, pdf_of
from ._table import text_table

_INTERRUPTED = 130  # what a shell reports for Ctrl-C
_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute a notebook and write its report.

    Returns:
        The exit status: 0 on success, 1 if a cell failed or the PDF could not be printed, 2 if an
        argument is invalid, 130 if the command was interrupted.
    """
    options = _parser().parse_args(arguments)
    output: Path = options.output or Path("reports") / f"{options.notebook.stem}.html"
    if output.suffix.lower() == ".pdf":
        options.pdf, output = True, output.with_suffix(".html")
    try:
        parameters = parameters_of(options.parameters)
        notebook = _notebook(options, parameters)
        if options.pdf:
            find_chromium()  # fail before the training rather than after it
    except ConfigurationError as error:
        _write_line(str(error))
        return _REFUSED
    output.parent.mkdir(parents=True, exist_ok=True)
    began_s, made_at = time.monotonic(), datetime.now().astimezone()
    if options.as_executed:
        failure, took = failure_in(notebook), time_taken(notebook)
        made_at = datetime.fromtimestamp(options.notebook.stat().st_mtime).astimezone()
    else:
        _write_line(f"Running {options.notebook} from top to bottom.")
        failure = run_notebook(
            notebook,
            folder=options.notebook.parent.resolve(),
            timeout_s=options.timeout_s,
            say=_write_line,
        )
        took = duration_text(time.monotonic() - began_s)
    html = offline_html(
        notebook,
        name=options.notebook.name,
        made_at=made_at,
        took=took,
        failure=failure,
        parameters=parameters,
        code=options.code,
        folder=options.notebook.parent.resolve(),
    )
    write_bytes(str(output), html.encode())
    places = [("report", output)]
    if not options.as_executed:
        executed = _path_of_executed(options.notebook, output)
        _write_notebook(notebook, executed)
        places.append(("notebook", executed))
    for address in outside_resources(html):
        _write_line(f"The report omits an external resource: {address}.")
    if failure:
        _print_failure(failure)
    is_printed = not options.pdf or _print(html, output.with_suffix(".pdf"), places)
    results = options.results or output.with_suffix(".json")
    _write_line(f"Finished after {duration_text(time.monotonic() - began_s)}.")
    _print_paths(places, results=results, newer_than_s=made_at.timestamp())
    if failure is not None:
        return _INTERRUPTED if failure.was_interrupted else 1
    return 0 if is_printed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sparkwright_widgets.report",
        description="Execute a notebook and write an offline HTML report.",
    )
    add = parser.add_argument
    add("notebook", type=Path, help="the notebook; it is not modified")
    add("-o", "--output", type=Path, help="default: reports/NAME.html; NAME.pdf implies --pdf")
    add("--pdf", action="store_true", help="print it as a PDF as well; needs Chromium")
    add("--as-executed", action="store_true", help="use the saved outputs; run nothing")
    add(
        *("-p", "--parameter"),
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help='override a variable of the cell tagged "parameters"; may be repeated',
    )
    add("--code", action="store_true", help="include the code, collapsed by cell")
    add("--timeout-s", type=float, help="limit for each cell; default: none")
    add("--results", type=Path, help="JSON file that the notebook writes; default: next to OUTPUT")
    return parser


def _notebook(options: argparse.Namespace, parameters: dict[str, Any]) -> NotebookNode:
    """Read the notebook and apply the parameters."""
    path: Path = options.notebook
    if not path.is_file():
        raise ConfigurationError(f"the notebook must be an existing file. Received: {path}.")
    try:
        notebook = nbformat.read(path, as_version=4)
    except (ValueError, nbformat.ValidationError) as error:
        raise ConfigurationError(
            f"the file must be a Jupyter notebook. Received: {path}: {error}."
        ) from None
    if options.as_executed and parameters:
        raise ConfigurationError(
            "`--as-executed` cannot be combined with parameters. Received: "
            f"{', '.join(parameters)}. Omit one of the two."
        )
    if options.as_executed and not has_been_executed(notebook):
        raise ConfigurationError(
            f"`--as-executed` needs an executed notebook. Received: {path}, without outputs. "
            "Run and save the notebook, or omit `--as-executed`."
        )
    return parameterized(notebook, parameters) if parameters else notebook


def _path_of_executed(notebook: Path, output: Path) -> Path:
    """Return a path next to the report that differs from the notebook's own."""
    path = output.with_suffix(".ipynb")
    is_same = path.resolve() == notebook.resolve()
    return output.with_suffix(".executed.ipynb") if is_same else path


def _write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write the executed notebook without widget state, which cannot be restored."""
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, path)


def _print(html: str, path: Path, places: list[tuple[str, Path]]) -> bool:
    try:
        write_bytes(str(path), pdf_of(html))
    except SparkwrightError as error:
        _write_line(str(error))
        return False
    places.append(("PDF", path))
    return True


def _print_failure(failure: NotebookFailure) -> None:
    _write_line(f"\nCode cell {failure.cell} failed: {failure.reason}")
    for line in failure.source.splitlines():
        _write_line(f"    {line}")
    if failure.details:
        _write_line(failure.details)
    _write_line("")


def _print_paths(places: Sequence[tuple[str, Path]], *, results: Path, newer_than_s: float) -> None:
    """Print the paths and the results, unless the results are of an earlier run."""
    files = list(places)
    if results.is_file() and results.stat().st_mtime >= newer_than_s - 1:
        fields: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
        files.append(("results", results))
        rows = [[name, _value_text(value)] for name, value in fields.items()]
        _write_line(text_table(["result", "value"], rows, text_columns=(1,)))
    rows = [[name, path.resolve()] for name, path in files]
    _write_line(text_table(["file", "path"], rows, text_columns=(1,)))


def _value_text(value: object) -> str:
    if isinstance(value, float):
        return short_number(value)
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
