"""What a notebook that was executed elsewhere says of its execution. Pure."""

from datetime import datetime

from nbformat import NotebookNode

from sparkwright_widgets._format import duration_text, plain
from sparkwright_widgets._notebook_run import NotebookFailure

_MOST_LINES = 25


def has_been_executed(notebook: NotebookNode) -> bool:
    """Whether a code cell has a number or an output; also True if there is no code at all."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    return not cells or any(cell.get("execution_count") or cell.outputs for cell in cells)


def failure_in(notebook: NotebookNode) -> NotebookFailure | None:
    """The first error among the outputs."""
    number = 0
    for cell in notebook.cells:
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        number += 1
        for output in cell.outputs:
            if output.output_type == "error":
                lines = plain("\n".join(output.get("traceback", []))).splitlines()
                return NotebookFailure(
                    cell=number,
                    source="\n".join(cell.source.strip().splitlines()[:8]),
                    reason=plain(f"{output.get('ename', '')}: {output.get('evalue', '')}"),
                    details="\n".join(lines[-_MOST_LINES:]),
                )
    return None


def time_taken(notebook: NotebookNode) -> str:
    """From the first cell's beginning to the last one's end, in words; empty if not recorded."""
    moments: list[datetime] = []
    for cell in notebook.cells:
        recorded = cell.metadata.get("execution", {})
        for key in ("iopub.execute_input", "shell.execute_reply"):
            try:
                moments.append(datetime.fromisoformat(str(recorded[key]).replace("Z", "+00:00")))
            except (KeyError, ValueError):
                continue
    if len(moments) < 2:
        return ""
    return duration_text((max(moments) - min(moments)).total_seconds())
