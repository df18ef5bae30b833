"""An experiment as a notebook of plain code, without widgets."""

from typing import TYPE_CHECKING, Any

from ._code import steps

if TYPE_CHECKING:
    from ._experiment import Experiment


def notebook(experiment: "Experiment") -> dict[str, Any]:
    """The JSON of an `.ipynb` file (nbformat 4.5): each step a heading and a code cell."""
    cells: list[tuple[str, str]] = [("markdown", f"# {experiment.title}")]
    for step in steps(experiment, in_notebook=True):
        cells.append(("markdown", f"## {step.title}\n\n{step.text}"))
        cells.append(("code", step.code))
    cells.append(
        (
            "markdown",
            "## The same as one file\n\n`sw.Experiment.from_yaml(text).start(spark)` trains it "
            f"again.\n\n```yaml\n{experiment.to_yaml()}```",
        )
    )
    return {
        "cells": [_cell(kind, source, number) for number, (kind, source) in enumerate(cells)],
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


def _cell(kind: str, source: str, number: int) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}
