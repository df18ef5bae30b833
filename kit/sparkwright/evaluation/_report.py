"""An evaluation as text for a terminal and as HTML for a notebook or a report."""

import csv
import io
from html import escape
from typing import TYPE_CHECKING

from ._binary_rates import Metric
from ._tables import aligned, html_report as html_block, html_row, html_table

if TYPE_CHECKING:
    from ._evaluation import Evaluation

_PER_CLASS: tuple[Metric, ...] = ("precision", "recall", "f1")


def text_report(evaluation: "Evaluation", *, max_classes: int) -> str:
    """Headline metrics, then a table by class and the confusion matrix if they are not too big."""
    lines = [_title(evaluation), ""]
    lines += [f"{name:<20}{value:>8.4f}{note}" for name, value, note in _headlines(evaluation)]
    lines += _decided(evaluation)
    if evaluation.classes == 0:
        return "\n".join(lines)
    errors = _errors(evaluation)
    worst = ["", _errors_title(evaluation), "", *aligned(errors)] if len(errors) > 1 else []
    if evaluation.classes > max_classes:
        return "\n".join([*lines, "", _too_many(evaluation), *worst])
    by_class = [["class", "examples", "predicted", "precision", "recall", "F1"]]
    by_class += [
        [*row[:3], *(f"{float(cell):.4f}" for cell in row[3:])] for row in _rows(evaluation)
    ]
    matrix = [["", *evaluation.names]]
    matrix += [
        [name, *map(str, row)]
        for name, row in zip(evaluation.names, evaluation.confusion.tolist(), strict=True)
    ]
    tables = [*aligned(by_class), "", _MATRIX_TITLE, "", *aligned(matrix)]
    return "\n".join([*lines, "", *tables, *worst])


def html_report(evaluation: "Evaluation", *, max_classes: int) -> str:
    """The same as HTML: no scripts, no style sheet, readable on light and dark pages."""
    parts = [_html_headlines(evaluation)]
    parts += [f"<p>{escape(line)}</p>" for line in _decided(evaluation)]
    if 0 < evaluation.classes <= max_classes:
        matrix = confusion_html(evaluation)
        parts += [_html_by_class(evaluation), f"<p>{_MATRIX_TITLE}</p>", matrix]
    elif evaluation.classes:
        parts.append(f"<p>{escape(_too_many(evaluation))}</p>")
    head, *errors = _errors(evaluation)
    if errors:
        rows = [html_row(error[0], error[1:]) for error in errors]
        parts += [f"<p>{escape(_errors_title(evaluation))}</p>", html_table(head, rows)]
    return html_block(_title(evaluation), *parts)


def confusion_csv(evaluation: "Evaluation") -> str:
    """The matrix: a head of predicted classes, a row for each actual one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["actual", *evaluation.names])
    for name, counts in zip(evaluation.names, evaluation.confusion.tolist(), strict=True):
        writer.writerow([name, *counts])
    return text.getvalue()


_SHOWN_ERRORS = 10
_MATRIX_TITLE = "Confusion matrix (rows: actual, columns: predicted)"


def _title(evaluation: "Evaluation") -> str:
    return f"Evaluation of {evaluation.examples:,} examples, {evaluation.classes} classes"


def _too_many(evaluation: "Evaluation") -> str:
    return (
        f"{evaluation.classes} classes: summary(max_classes={evaluation.classes}) shows them "
        "one by one, with the confusion matrix."
    )


def _headlines(evaluation: "Evaluation") -> list[tuple[str, float, str]]:
    """Name, value, and a note on classes that the value leaves out."""

    def note(metric: Metric) -> str:
        out = len(evaluation.left_out(metric))
        return f"  (without {out} of {evaluation.classes} classes: 0/0)" if out else ""

    top = (
        [(f"top-{evaluation.top_n} accuracy", evaluation.top_n_accuracy, "")]
        if evaluation.top_n > 1
        else []
    )
    return [
        ("accuracy", evaluation.accuracy, ""),
        *top,
        ("precision (macro)", evaluation.precision(), note("precision")),
        ("recall (macro)", evaluation.recall(), note("recall")),
        ("F1 (macro)", evaluation.f1(), note("f1")),
        ("Matthews correlation", evaluation.matthews_correlation(), ""),
    ]


def _decided(evaluation: "Evaluation") -> list[str]:
    """How classes were predicted, if not by the highest probability."""
    if evaluation.threshold is not None:
        return [f"class 1 where its probability exceeds {evaluation.threshold:g}"]
    if evaluation.costs is not None:
        costs = ", ".join(f"{cost:g}" for cost in evaluation.costs[:20])
        more = ", …" if len(evaluation.costs) > 20 else ""
        return [f"probabilities multiplied by costs {costs}{more}"]
    return []


def _errors_title(evaluation: "Evaluation") -> str:
    kept = len(evaluation.kept_errors)
    return f"The most certain errors ({min(kept, _SHOWN_ERRORS)} of {kept} that were kept)"


def _errors(evaluation: "Evaluation") -> list[list[str]]:
    """A head, and some of the errors."""
    names = evaluation.names
    rows = [["record", "actual", "predicted", "probability"]]
    return rows + [
        [error.place, names[error.actual], names[error.predicted], f"{error.probability:.4f}"]
        for error in evaluation.kept_errors[:_SHOWN_ERRORS]
    ]


def _rows(evaluation: "Evaluation") -> list[list[str]]:
    """Class, examples, predicted, and the metrics by class, unrounded."""
    actual, predicted = evaluation.confusion.sum(axis=1), evaluation.confusion.sum(axis=0)
    values = [evaluation.per_class(metric) for metric in _PER_CLASS]
    return [
        [name, str(actual[k]), str(predicted[k]), *(str(float(value[k])) for value in values)]
        for k, name in enumerate(evaluation.names)
    ]


def _html_headlines(evaluation: "Evaluation") -> str:
    rows = [
        html_row(name, [f"{value:.4f}"], note=note) for name, value, note in _headlines(evaluation)
    ]
    return html_table([], rows)


def _html_by_class(evaluation: "Evaluation") -> str:
    rows = [
        html_row(row[0], [*row[1:3], *(f"{float(cell):.4f}" for cell in row[3:])])
        for row in _rows(evaluation)
    ]
    return html_table(["class", "examples", "predicted", "precision", "recall", "F1"], rows)


def confusion_html(evaluation: "Evaluation") -> str:
    """Cells tinted by their share of the actual class: blue on the diagonal, red off it."""
    rows: list[str] = []
    for actual, counts in enumerate(evaluation.confusion.tolist()):
        tints: list[str] = []
        for predicted, count in enumerate(counts):
            color = "31,119,180" if actual == predicted else "214,39,40"
            # The root makes a few errors among many examples visible.
            tints.append(f"rgba({color},{0.6 * (count / max(sum(counts), 1)) ** 0.5:.3f})")
        rows.append(html_row(evaluation.names[actual], list(map(str, counts)), tints=tints))
    return html_table(["", *evaluation.names], rows)
