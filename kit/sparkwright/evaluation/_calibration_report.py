"""A calibration as text for a terminal and as HTML for a notebook."""

from typing import TYPE_CHECKING

from . import _tables

if TYPE_CHECKING:
    from ._calibration import EvaluationCalibration

_HEAD = ["class", "examples", "predicted", "ECE", "MCE", "Brier score"]


def text_report(evaluation: "EvaluationCalibration", *, max_classes: int) -> str:
    """Headline metrics, and a table by class if they are not too many."""
    lines = [_title(evaluation), ""]
    lines += [f"{name:<28}{value:>8.4f}" for name, value in evaluation.headline().items()]
    if 0 < evaluation.classes <= max_classes:
        lines += ["", *_tables.aligned([_HEAD, *_rows(evaluation)])]
    return "\n".join(lines)


def html_report(evaluation: "EvaluationCalibration", *, max_classes: int) -> str:
    """The same as HTML."""
    headlines = [
        _tables.html_row(name, [f"{value:.4f}"]) for name, value in evaluation.headline().items()
    ]
    parts = [_tables.html_table([], headlines)]
    if 0 < evaluation.classes <= max_classes:
        rows = [_tables.html_row(row[0], row[1:]) for row in _rows(evaluation)]
        parts.append(_tables.html_table(_HEAD, rows))
    return _tables.html_report(_title(evaluation), *parts)


def _title(evaluation: "EvaluationCalibration") -> str:
    return f"Calibration of {evaluation.examples:,} examples, {evaluation.classes} classes"


def _rows(evaluation: "EvaluationCalibration") -> list[list[str]]:
    actual, predicted = evaluation.label_counts, evaluation.prediction_counts
    return [
        [
            name,
            f"{actual[k]:,}",
            f"{predicted[k]:,}",
            f"{evaluation.expected_calibration_error(of=k):.4f}",
            f"{evaluation.maximum_calibration_error(of=k):.4f}",
            f"{evaluation.brier_score(of=k):.4f}",
        ]
        for k, name in enumerate(evaluation.names)
    ]
