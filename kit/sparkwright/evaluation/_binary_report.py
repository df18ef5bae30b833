"""An evaluation of several yes-or-no outputs, as text and as HTML."""

from html import escape
from typing import TYPE_CHECKING

from ._tables import aligned, html_report as html_block, html_row, html_table

if TYPE_CHECKING:
    from ._binary import EvaluationBinary


def text_report(evaluation: "EvaluationBinary", *, max_outputs: int) -> str:
    """Averages, then a table by output if there are not too many."""
    lines = [_title(evaluation), ""]
    lines += [f"{name:<28}{value:>8.4f}{note}" for name, value, note in _headlines(evaluation)]
    if not evaluation.outputs:
        return "\n".join(lines)
    if evaluation.outputs > max_outputs:
        return "\n".join([*lines, "", _too_many(evaluation)])
    return "\n".join([*lines, "", *aligned(_by_output(evaluation))])


def html_report(evaluation: "EvaluationBinary", *, max_outputs: int) -> str:
    """The same as HTML."""
    rows = [
        html_row(name, [f"{value:.4f}"], note=note.strip())
        for name, value, note in _headlines(evaluation)
    ]
    parts = [html_table([], rows)]
    if evaluation.outputs > max_outputs:
        parts.append(f"<p>{escape(_too_many(evaluation))}</p>")
    elif evaluation.outputs:
        head, *body = _by_output(evaluation)
        parts.append(html_table(head, [html_row(row[0], row[1:]) for row in body]))
    return html_block(_title(evaluation), *parts)


def _title(evaluation: "EvaluationBinary") -> str:
    title = f"Evaluation of {evaluation.examples:,} examples, {evaluation.outputs} outputs"
    if isinstance(evaluation.thresholds, tuple):
        return title
    return f"{title} (yes above {evaluation.thresholds:g})"


def _too_many(evaluation: "EvaluationBinary") -> str:
    count = evaluation.outputs
    return f"{count} outputs: summary(max_outputs={count}) shows them one by one."


def _headlines(evaluation: "EvaluationBinary") -> list[tuple[str, float, str]]:
    """Name, value, and a note on outputs that the value leaves out."""
    left_out = {
        "precision (macro)": evaluation.left_out("precision"),
        "recall (macro)": evaluation.left_out("recall"),
        "F1 (macro)": evaluation.left_out("f1"),
        "Matthews correlation (macro)": evaluation.left_out("matthews_correlation"),
        "AUC (macro)": () if evaluation.roc is None else evaluation.roc.left_out(),
    }
    found: list[tuple[str, float, str]] = []
    for name, value in evaluation.headline().items():
        out = len(left_out.get(name, ()))
        note = f"  (without {out} of {evaluation.outputs} outputs: 0/0)" if out else ""
        found.append((name, value, note))
    return found


def _by_output(evaluation: "EvaluationBinary") -> list[list[str]]:
    """A head, and a row for each output."""
    counts, each = evaluation.counts, evaluation.thresholds
    columns = {
        "accuracy": evaluation.per_output("accuracy"),
        "precision": evaluation.per_output("precision"),
        "recall": evaluation.per_output("recall"),
        "F1": evaluation.per_output("f1"),
    }
    roc = evaluation.roc
    head = [
        "output",
        *(["yes above"] if isinstance(each, tuple) else []),
        "examples",
        "yes",
        "predicted yes",
        *columns,
    ]
    table = [[*head, *(["AUC"] if roc is not None else [])]]
    for k, name in enumerate(evaluation.output_names):
        row = [name]
        row += [f"{each[k]:g}"] if isinstance(each, tuple) else []
        yes, said = counts.positives[k], counts.true_positives[k] + counts.false_positives[k]
        row += [str(yes + counts.negatives[k]), str(yes), str(said)]
        row += [f"{float(values[k]):.4f}" for values in columns.values()]
        row += [f"{roc.auc(of=k) if roc.rocs else roc.auc():.4f}"] if roc is not None else []
        table.append(row)
    return table
