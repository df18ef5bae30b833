"""Export an executed notebook as one HTML file that works offline and needs no code."""

import re
from collections.abc import Mapping
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from ._format import escaped
from ._notebook_run import NotebookFailure
from ._reports._page import first_line, page, with_alternative_texts, with_contents
from ._table import html_table

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_CARD = "sparkwright-card"
_FOLDED = """{%- extends 'basic/index.html.j2' -%}
{%- block input -%}
<details class="code"><summary>Code</summary>{{ super() }}</details>
{%- endblock input -%}"""
# Spellings of Jupyter Book, Quarto and nbconvert.
_NO_CELL = {"remove_cell", "remove-cell"}
_NO_INPUT = {"remove_input", "remove-input", "hide_input", "hide-input"}
_NO_OUTPUT = {"remove_output", "remove-output"}


def offline_html(
    notebook: NotebookNode,
    *,
    name: str,
    made_at: datetime,
    took: str,  # "": unknown
    failure: NotebookFailure | None = None,
    parameters: Mapping[str, Any] | None = None,
    code: bool = False,  # include the code in collapsed sections
    folder: Path | None = None,  # of pictures that texts refer to; None: none are embedded
) -> str:
    """Render the outputs and texts of `notebook` as a standalone page."""
    from nbconvert import HTMLExporter

    options: dict[str, Any] = {"raw_template": _FOLDED} if code else {"template_name": "basic"}
    exporter = HTMLExporter(
        exclude_input=not code,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        embed_images=folder is not None,
        **options,
    )
    where = {} if folder is None else {"resources": {"metadata": {"path": str(folder)}}}
    body, _ = exporter.from_notebook_node(_readable(notebook), **where)
    title = notebook_title(notebook, default=name)
    top = (_failure_box(failure) if failure else "") + _parameter_table(parameters or {})
    line = first_line(name, made_at, took)
    whole = page(title=title, line=line, body=f"{top}{with_contents(body)}", scripts=True)
    return with_alternative_texts(whole)


def _parameter_table(parameters: Mapping[str, Any]) -> str:
    if not parameters:
        return ""
    rows = [(name, repr(value)) for name, value in parameters.items()]
    table = html_table(["Parameter", "Value"], rows, label="Parameters", text_columns=(1,))
    return f'<section class="parameters">{table}</section>\n'


def notebook_title(notebook: NotebookNode, *, default: str) -> str:
    """Return the first top-level heading of the notebook, or `default`."""
    for cell in notebook.cells:
        found = re.search(r"^# (.+)$", cell.source, re.MULTILINE)
        if cell.cell_type == "markdown" and found:
            return re.sub(r"[*_`]", "", found[1]).strip()
    return default


def outside_resources(html: str) -> list[str]:
    """Return the addresses that a browser would fetch to show the page; empty if it is offline."""
    finder = _ResourceFinder()
    finder.feed(html)
    return finder.found


_SOURCES = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
_IN_STYLE = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')]+)")


class _ResourceFinder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("style", "script") else ""
        given = dict(attrs)
        for name in _SOURCES.get(tag, ()):
            address = (given.get(name) or "").strip()
            if re.match(r"(https?:)?//", address):
                self.found.append(address)
        self.found += _IN_STYLE.findall(given.get("style") or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.found += _IN_STYLE.findall(data)
        if self._inside == "script":
            self.found += re.findall(r"(?:import|from|import\()\s*[\"'](https?://[^\"']+)", data)


def _readable(notebook: NotebookNode) -> NotebookNode:
    """Return a copy without live widgets, removed cells, hidden code and stderr."""
    copy = NotebookNode(notebook)
    copy.metadata = NotebookNode({k: v for k, v in notebook.metadata.items() if k != "widgets"})
    copy.cells = [NotebookNode(cell) for cell in notebook.cells if not _tags(cell) & _NO_CELL]
    for cell in copy.cells:
        if _tags(cell) & _NO_INPUT:
            cell.metadata = NotebookNode({**cell.metadata, "transient": {"remove_source": True}})
        if cell.cell_type == "code" and _tags(cell) & _NO_OUTPUT:
            cell.outputs = []
        elif cell.cell_type == "code":
            has_panel = any(_WIDGET_VIEW in output.get("data", {}) for output in cell.outputs)
            cell.outputs = [
                _still(output)
                for output in cell.outputs
                if not (has_panel and _is_card(output)) and output.get("name") != "stderr"
            ]
    return copy


def _tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def _is_card(output: NotebookNode) -> bool:
    html = output.get("data", {}).get("text/html", "")
    return f'class="sparkwright-block {_CARD}"' in html[:200]


def _still(output: NotebookNode) -> NotebookNode:
    if _WIDGET_VIEW not in output.get("data", {}):
        return output
    copy = NotebookNode(output)
    copy.data = NotebookNode({k: v for k, v in output.data.items() if k != _WIDGET_VIEW})
    return copy


def _failure_box(failure: NotebookFailure) -> str:
    details = f"<pre>{escaped(failure.details)}</pre>" if failure.details else ""
    return (
        '<section class="failure" role="alert"><strong>This report is incomplete.</strong> '
        f"Code cell {failure.cell} failed: {escaped(failure.reason)}.{details}</section>\n"
    )
