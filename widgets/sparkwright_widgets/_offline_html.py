"""An executed notebook as one HTML file that needs neither network nor code to be understood."""

import re
from datetime import datetime
from html.parser import HTMLParser

from nbformat import NotebookNode

from ._assets import asset
from ._format import escaped
from ._notebook_run import NotebookFailure

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_CARD = "sparkwright-card"


def offline_html(
    notebook: NotebookNode,
    *,
    name: str,
    made_at: datetime,
    took: str,
    failure: NotebookFailure | None = None,
) -> str:
    """Render the outputs and texts of `notebook`, without its code, as a page of its own.

    Args:
        notebook: the executed notebook; not modified.
        name: of the notebook's file, for the header.
        made_at: when it was executed.
        took: how long that took, in words.
        failure: shown on top if the notebook did not reach its end.
    """
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(template_name="basic", exclude_input=True, exclude_output_prompt=True)
    body, _ = exporter.from_notebook_node(_readable(notebook))
    title = notebook_title(notebook, default=name)
    warning = _failure_box(failure) if failure else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{asset('report.css')}</style>\n</head>\n"
        f"<body>\n<header>Sparkwright report · {escaped(name)} · "
        f'<time datetime="{made_at.isoformat(timespec="seconds")}">'
        f"{made_at:%d %B %Y, %H:%M}</time> · ran for {escaped(took)}</header>\n"
        f"<main>\n{warning}{body}\n</main>\n</body>\n</html>\n"
    )


def notebook_title(notebook: NotebookNode, *, default: str) -> str:
    """The first top-level heading of the notebook."""
    for cell in notebook.cells:
        found = re.search(r"^# (.+)$", cell.source, re.MULTILINE)
        if cell.cell_type == "markdown" and found:
            return re.sub(r"[*_`]", "", found[1]).strip()
    return default


def outside_resources(html: str) -> list[str]:
    """Addresses that a browser would fetch to show the page: none in an offline file."""
    finder = _ResourceFinder()
    finder.feed(html)
    return finder.found


_SOURCES = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}


class _ResourceFinder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("style", "script") else ""
        address = dict(attrs).get(_SOURCES.get(tag, "")) or ""
        if re.match(r"(https?:)?//", address):
            self.found.append(address)

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.found += re.findall(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')]+)", data)
        if self._inside == "script":
            self.found += re.findall(r"(?:import|from|import\()\s*[\"'](https?://[^\"']+)", data)


def _readable(notebook: NotebookNode) -> NotebookNode:
    """A copy without what only a live notebook, or its author, has a use for.

    Left out: live widgets, summary cards next to the panels that they repeat, and what was written
    to stderr (Spark's log, progress bars); the executed notebook keeps all of it.
    """
    copy = NotebookNode(notebook)
    copy.metadata = NotebookNode({k: v for k, v in notebook.metadata.items() if k != "widgets"})
    copy.cells = [NotebookNode(cell) for cell in notebook.cells]
    for cell in copy.cells:
        if cell.cell_type == "code":
            has_panel = any(_WIDGET_VIEW in output.get("data", {}) for output in cell.outputs)
            cell.outputs = [
                _still(output)
                for output in cell.outputs
                if not (has_panel and _is_card(output)) and output.get("name") != "stderr"
            ]
    return copy


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
        f"Code cell {failure.cell} did not succeed: {escaped(failure.reason)}.{details}</section>\n"
    )
