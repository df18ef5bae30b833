"""A regression's evaluation as text for a terminal and as HTML for a notebook."""

from typing import TYPE_CHECKING

from . import _tables
from ._regression_metrics import RegressionMetric

if TYPE_CHECKING:
    from ._regression import RegressionEvaluation

_HEAD = ["output", "examples", "MSE", "RMSE", "MAE", "mean error", "R²", "correlation"]
_SHOWN: tuple[RegressionMetric, ...] = (
    "mean_squared_error",
    "root_mean_squared_error",
    "mean_absolute_error",
    "mean_error",
    "r2",
    "pearson_correlation",
)


def text_report(evaluation: "RegressionEvaluation", *, max_outputs: int) -> str:
    """A row for each output, if they are not too many, and one for the average."""
    rows = _rows(evaluation, max_outputs)
    return "\n".join(
        [_title(evaluation), *(["", *_tables.aligned([_HEAD, *rows])] if rows else [])]
    )


def html_report(evaluation: "RegressionEvaluation", *, max_outputs: int) -> str:
    """The same as HTML."""
    rows = [_tables.html_row(row[0], row[1:]) for row in _rows(evaluation, max_outputs)]
    return _tables.html_report(
        _title(evaluation), *([_tables.html_table(_HEAD, rows)] if rows else [])
    )


def _title(evaluation: "RegressionEvaluation") -> str:
    count = len(evaluation.outputs)
    outputs = "1 output" if count == 1 else f"{count} outputs"
    return f"Regression of {evaluation.examples:,} examples, {outputs}"


def _rows(evaluation: "RegressionEvaluation", max_outputs: int) -> list[list[str]]:
    names, outputs = evaluation.output_names, evaluation.outputs
    if not outputs:
        return []
    columns = [evaluation.per_output(metric) for metric in _SHOWN]
    rows: list[list[str]] = []
    if len(names) <= max_outputs:
        rows = [
            [name, f"{outputs[k].count:,}", *(f"{each[k]:.5g}" for each in columns)]
            for k, name in enumerate(names)
        ]
    if len(names) > 1:
        out = len(evaluation.left_out())
        title = "average" if not out else f"average (without {out} of {len(names)}: no rows)"
        averages = [getattr(evaluation, metric)() for metric in _SHOWN]
        rows.append([title, f"{evaluation.examples:,}", *(f"{each:.5g}" for each in averages)])
    return rows
