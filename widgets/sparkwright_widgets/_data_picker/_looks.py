"""Render a DataPreview as HTML and text, and find fixes of its problems. Pure."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sparkwright.data import ColumnPreview, DataPreview, DataProblem, DataSource, ImageThumbnail
from sparkwright.data.wording import clipped
from sparkwright.errors import ConfigurationError
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import bytes_text, count_text, escaped, short_number
from sparkwright_widgets._fragments import figure_list
from sparkwright_widgets._table import Markup, html_table, share_bar, text_table
from sparkwright_widgets._ui import advice

_NONE = Markup('<span class="sparkwright-none">none</span>')
_MOST_COLUMNS = 40
_MOST_PROBLEMS = 12
_MOST_CLASSES = 12
_BAR_WIDTH, _BAR_HEIGHT = 6, 16
_FILLS = {"median": "Fill with the median", "mean": "Fill with the mean", 0.0: "Fill with 0"}
# Problems of a whole column, fixed by excluding it.
_LEFT_OUT = (
    *("empty column", "decimal comma", "feature of text", "constant column"),
    *("many categories", "row numbers", "repeated column"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """A change of the source that fixes a problem."""

    label: str  # text of the button
    source: DataSource


def views(preview: DataPreview | None) -> tuple[str, str, str, str]:
    """HTML of the figures, first rows, classes and column statistics; empty if not available."""
    if preview is None:
        return "", "", "", ""
    return (
        extent_figures(preview) + advice(preview.note),
        beginning(preview),
        class_bars(preview),
        column_table(preview),
    )


def extent_figures(preview: DataPreview) -> str:
    """Size of the data and of the preview, as HTML."""
    return figure_list(figures_of(preview)) if preview.looked_at or preview.files else ""


def figures_of(preview: DataPreview) -> list[tuple[str, str]]:
    """Label and value of each figure."""
    shape = " x ".join(map(str, preview.feature_shape or ()))
    return [
        (label, text)
        for label, is_known, text in (
            ("Preview", preview.looked_at, preview.extent),
            ("Files", preview.files, count_text(preview.files or 0)),
            ("Size", preview.size_bytes, bytes_text(preview.size_bytes or 0)),
            ("Feature shape", shape, shape),
            ("Classes", preview.class_count, count_text(preview.class_count or 0)),
        )
        if is_known
    ]


def findings(preview: DataPreview | None) -> list[tuple[str, tuple[Fix, ...]]]:
    """Each problem as HTML with its fixes, the most severe first."""
    if preview is None:
        return []
    problems = preview.problems
    shown = [(_problem(each), fixes(each, preview)) for each in problems[:_MOST_PROBLEMS]]
    if (left := len(problems) - _MOST_PROBLEMS) > 0:
        shown.append((f"<div>… and {count_text(left)} more.</div>", ()))
    return shown


def _problem(problem: DataProblem) -> str:
    kind, icon, word = (
        ("bad", "✕", "Error") if problem.severity == "error" else ("odd", "⚠", "Warning")
    )
    return (
        f'<div class="sparkwright-is-{kind}"><strong><span aria-hidden="true">{icon}</span> {word}:'
        f"</strong> {escaped(problem.sentence)}</div>"
    )


def beginning(preview: DataPreview) -> str:
    """The first rows or images, as HTML."""
    if preview.images:
        items = "".join(_picture(image) for image in preview.images)
        return f'<div class="sparkwright-pictures" role="list">{items}</div>'
    if not preview.rows:
        return ""
    columns, label = preview.columns[:_MOST_COLUMNS], preview.source.label
    rows = [[value or _NONE for value in row[:_MOST_COLUMNS]] for row in preview.rows]
    return html_table(
        [f"{c.name} (label)" if c.name == label else c.name for c in columns],
        rows,
        label="First rows",
        text_columns={index for index, column in enumerate(columns) if not column.is_number},
        caption=f"The first {len(rows)} {preview.unit}s."
        + _more(len(preview.columns) - len(columns), "columns"),
    )


def _more(left: int, what: str) -> str:
    return f" {count_text(left)} more {what} are not shown." if left > 0 else ""


def _picture(image: ImageThumbnail) -> str:
    data = base64.b64encode(image.png).decode("ascii")
    what = f"{image.name}, {image.size[0]} x {image.size[1]} pixels"
    alt = f"{what}, label {image.label}" if image.label else what
    caption = f"<figcaption>{escaped(image.label)}</figcaption>" if image.label else ""
    return (
        f'<figure role="listitem"><img alt="{escaped(alt)}" title="{escaped(what)}" '
        f'src="data:image/png;base64,{data}">{caption}</figure>'
    )


def class_bars(preview: DataPreview) -> str:
    """Count and share of each class, as an HTML table with bars."""
    if len(preview.labels) < 2:
        return ""
    total = sum(count for _, count in preview.labels)
    most = max(count for _, count in preview.labels)
    rows = [
        [name, count_text(count), f"{100 * count / total:.1f}%", share_bar(count, most)]
        for name, count in preview.labels[:_MOST_CLASSES]
    ]
    return html_table(
        ["Class", "Count", "Share", "Relative to the largest"],
        rows,
        label="Classes",
        text_columns={0, 3},
        caption=f"Classes of the {preview.unit}s in the preview."
        + _more(len(preview.labels) - _MOST_CLASSES, "classes"),
    )


def column_table(preview: DataPreview) -> str:
    """Statistics of each column."""
    if not preview.columns:
        return ""
    columns: dict[str, Callable[[ColumnPreview], object]] = {
        "Column": lambda c: c.name,
        "Type": kind_text,
        "Count": lambda c: count_text(c.count),
        "Missing": lambda c: count_text(c.missing),
        "Distinct": lambda c: count_text(c.distinct) if c.kind != "array" else "",
        "Mean": lambda c: _number(c.mean),
        "Std": lambda c: _number(c.std),
        "Min": lambda c: _number(c.minimum),
        "Max": lambda c: _number(c.maximum),
        "Values": _spread,
    }
    return html_table(
        list(columns),
        [[shown(column) for shown in columns.values()] for column in preview.columns[:200]],
        label="Column statistics",
        text_columns={1, 9},
        caption=f"Computed from {preview.extent}." + _more(len(preview.columns) - 200, "columns"),
    )


def kind_text(column: ColumnPreview) -> str:
    """The kind of a column in one or two words.

    Example:
        >>> kind_text(ColumnPreview(name="image", kind="array", shape=(28, 28)))
        'array (28 x 28)'
    """
    if column.kind == "array" and column.shape is not None:
        return f"array ({' x '.join(map(str, column.shape))})"
    return column.kind


def _number(value: float | None) -> str:
    return "" if value is None else short_number(value)


def _spread(column: ColumnPreview) -> object:
    """A small histogram of a numeric column; the most frequent values of a text column."""
    if column.histogram:
        most = max(column.histogram)
        bars = "".join(
            f'<rect x="{i * _BAR_WIDTH}" y="{_BAR_HEIGHT * (1 - n / most):.1f}" '
            f'width="{_BAR_WIDTH - 1}" height="{_BAR_HEIGHT * n / most:.1f}"/>'
            for i, n in enumerate(column.histogram)
        )
        width = _BAR_WIDTH * len(column.histogram)
        said = f"Histogram from {_number(column.minimum)} to {_number(column.maximum)}"
        return Markup(
            f'<svg role="img" aria-label="{escaped(said)}" width="{width}" height="{_BAR_HEIGHT}" '
            f'viewBox="0 0 {width} {_BAR_HEIGHT}" fill="currentColor">{bars}</svg>'
        )
    return ", ".join(
        f"{text if len(text) <= 20 else text[:20] + '…'} ({count_text(count)})"
        for text, count in column.most_frequent[:3]
    )


def source_text(source: DataSource) -> str:
    """A source in one line.

    Example:
        >>> source_text(DataSource(format="csv", url="iris.csv", label="species"))
        'CSV (one example per line): iris.csv; label species, classification'
    """
    place = f": {source.url}" if source.url else ""
    label = f"; label {source.label}, {source.task}" if source.label else ""
    return f"{source.info.title}{place}{label}"


def code_of(source: DataSource) -> str:
    """Python code that loads and splits the source; if it is invalid, a comment with the reason."""
    if source.problem is not None:
        return f"# {source.problem}\n"
    head = "import sparkwright as sw\n\nspark = sw.start_spark()\n"
    return head + source.to_code(splits=True) + source.split_code()


def still(source: DataSource, preview: DataPreview | None) -> Block:
    """Static output for a saved notebook: source, preview and code."""
    lines = [source_text(source)]
    parts = [f"<p><strong>{escaped(lines[0])}</strong></p>"]
    if preview is not None and preview.source == source:
        figures_html, *others = views(preview)[:3]
        parts += [figures_html, *(html for html, _ in findings(preview)), *others]
        if figures := figures_of(preview):
            lines.append(text_table(["figure", "value"], figures, text_columns={1}))
        lines += [problem.sentence for problem in preview.problems[:_MOST_PROBLEMS]]
    code = escaped(code_of(source))
    parts.append(f"<details><summary>Python code</summary><pre>{code}</pre></details>")
    style = f"<style>{asset('data_picker.css')}</style>"
    return Block(html=style + "".join(parts), text="\n".join(lines), kind="data")


# --- fixes, each shown as a button


def fixes(problem: DataProblem, preview: DataPreview) -> tuple[Fix, ...]:
    """Return the known fixes of a problem of `preview`, the most common first."""
    found: list[Fix] = []
    for label, change in _changes(problem, preview):
        try:
            changed = change()
        except ConfigurationError:  # such as an option that this format or version lacks
            continue
        if changed != preview.source:
            found.append(Fix(label=label, source=changed))
    return tuple(found)


def _changes(
    problem: DataProblem, preview: DataPreview
) -> Iterator[tuple[str, Callable[[], DataSource]]]:
    """Yield label and change of each fix; an inapplicable change raises ConfigurationError."""
    column, received, source = problem.column, problem.received, preview.source
    is_all = preview.looked_at == preview.in_all and not preview.is_estimate
    several = f"{count_text(problem.count)} rows" if problem.count > 1 else "the row"
    rows = several if is_all else "such rows"

    def options(**changed: Any) -> Callable[[], DataSource]:
        return lambda: replace(source, options={**source.options, **changed})

    match problem.code:
        case "missing value" if problem.can_skip:
            yield f"Skip {rows}", options(missing="skip")
            for value, label in _FILLS.items() if column != source.label else ():
                yield label, options(missing=value)
            return
        case "not a number" if received:
            known = source.all_options.get("missing_values", ())
            change = options(missing_values=(*known, received))
            yield f"Treat '{clipped(received, limit=30)}' as missing", change
        case "label of text":
            yield "Use classification", lambda: replace(source, task="classification")
        case "many classes":
            yield "Use regression", lambda: replace(source, task="regression")
        case "feature of text":
            categories = (*source.categories, column)
            yield f"Treat '{column}' as categorical", lambda: replace(source, categories=categories)
        case _:
            pass
    if problem.can_skip:
        yield f"Skip {rows}", options(on_error="skip")
    if problem.code in _LEFT_OUT and column != source.label:
        yield f"Exclude '{column}'", lambda: _without(preview, column)


def _without(preview: DataPreview, column: str) -> DataSource:
    """Return the source without `column` among its features; an empty tuple would mean all."""
    source = preview.source
    names = source.features or tuple(each.name for each in preview.columns)
    unused = {column, source.label, source.options.get("weights")}
    features = tuple(name for name in names if name not in unused)
    if not features:
        raise ConfigurationError(f"at least one column must be a feature. Received: {column}.")
    categories = tuple(name for name in source.categories if name != column)
    return replace(source, features=features, categories=categories)
