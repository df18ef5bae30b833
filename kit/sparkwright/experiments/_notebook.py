"""An experiment as a notebook of plain code, without widgets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._code import steps

if TYPE_CHECKING:
    from ._experiment import Experiment


def notebook(experiment: "Experiment") -> dict[str, Any]:
    """The JSON of an `.ipynb` file (nbformat 4.5): each step a heading and a code cell."""
    cells = [_cell("markdown", f"# {experiment.title}")]
    for step in steps(experiment, in_notebook=True):
        cells.append(_cell("markdown", f"## {step.title}\n\n{step.text}"))
        cells.append(_cell("code", step.code, tags=step.tags))
    cells.append(
        _cell(
            "markdown",
            "## The same as one file\n\n`sw.Experiment.from_yaml(text).start(spark)` trains it "
            f"again.\n\n```yaml\n{experiment.to_yaml()}```",
        )
    )
    return {
        "cells": [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(kind: str, source: str, *, tags: Sequence[str] = ()) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "metadata": {"tags": list(tags)} if tags else {},
        "source": source.splitlines(keepends=True),
    }
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}
