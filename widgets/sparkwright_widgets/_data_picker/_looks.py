"""A DataPreview as HTML and text. Pure."""

import base64
from collections.abc import Sequence

from sparkwright.data import ColumnLook, DataPreview, DataProblem, DataSource, ImageLook
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import bytes_text, count_text, escaped
from sparkwright_widgets._fragments import figure_list
from sparkwright_widgets._table import Markup, html_table, text_table

REMEDIES = (
    '<div class="sparkwright-advice">Missing values, and what does not fit, are dealt with under '
    "Options of the format.</div>"
)
_MOST_COLUMNS = 40
_MOST_PROBLEMS = 12
_MOST_CLASSES = 12
_BAR_WIDTH, _BAR_HEIGHT = 6, 16


def extent_figures(preview: DataPreview) -> str:
    """How much there is, and how much of it was looked at."""
    return figure_list(figures_of(preview)) if preview.looked_at or preview.files else ""


def figures_of(preview: DataPreview) -> list[tuple[str, str]]:
    """Label and value of each figure."""
    found: list[tuple[str, str]] = []
    if preview.looked_at:
        found.append(("Looked at", preview.extent))
    if preview.files:
        found.append(("Files", count_text(preview.files)))
    if preview.size_bytes:
        found.append(("Size", bytes_text(preview.size_bytes)))
    if preview.feature_shape:
        shape = " x ".join(map(str, preview.feature_shape))
        found.append(("Features of one example", f"{shape} numbers"))
    if preview.class_count:
        found.append(("Classes seen", count_text(preview.class_count)))
    return found


def problem_list(problems: Sequence[DataProblem]) -> str:
    """What is wrong or odd: icon, word, sentence."""
    if not problems:
        return ""
    shown = "".join(_problem(problem) for problem in problems[:_MOST_PROBLEMS])
    left = len(problems) - _MOST_PROBLEMS
    more = f"<li>… and {count_text(left)} more.</li>" if left > 0 else ""
    return f'<ul class="sparkwright-findings" aria-label="Problems found">{shown}{more}</ul>'


def _problem(problem: DataProblem) -> str:
    kind, icon, word = (
        ("bad", "✕", "Problem") if problem.severity == "error" else ("odd", "⚠", "Look at this")
    )
    return (
        f'<li class="sparkwright-is-{kind}"><strong><span aria-hidden="true">{icon}</span> {word}:'
        f"</strong> {escaped(problem.sentence)}</li>"
    )


def beginning(preview: DataPreview) -> str:
    """The first rows, or some images."""
    if preview.images:
        return _pictures(preview)
    if not preview.rows:
        return ""
    columns = preview.columns[:_MOST_COLUMNS]
    roles = _roles(preview.source, columns)
    heads = [f"{column.name}{roles[column.name]}" for column in columns]
    rows = [[_cell(value) for value in row[:_MOST_COLUMNS]] for row in preview.rows]
    left = len(preview.columns) - len(columns)
    more = f" {count_text(left)} more columns are not shown." if left > 0 else ""
    numbers = {index for index, column in enumerate(columns) if column.is_number}
    return html_table(
        heads,
        rows,
        label="First rows",
        text_columns=set(range(len(columns))) - numbers,
        caption=f"The first {len(rows)} {preview.unit}s.{more}",
    )


def _cell(value: str) -> object:
    return value if value else Markup('<span class="sparkwright-none">none</span>')


def _roles(source: DataSource, columns: Sequence[ColumnLook]) -> dict[str, str]:
    found = {column.name: "" for column in columns}
    if source.label is not None:
        found[source.label] = " (label)"
    return found


def _pictures(preview: DataPreview) -> str:
    items = "".join(_picture(image) for image in preview.images)
    return f'<div class="sparkwright-pictures" role="list">{items}</div>'


def _picture(image: ImageLook) -> str:
    data = base64.b64encode(image.png).decode("ascii")
    what = f"{image.name}, {image.size[0]} x {image.size[1]} pixels"
    alt = f"{what}, label {image.label}" if image.label else what
    caption = f"<figcaption>{escaped(image.label)}</figcaption>" if image.label else ""
    return (
        f'<figure role="listitem"><img alt="{escaped(alt)}" title="{escaped(what)}" '
        f'src="data:image/png;base64,{data}">{caption}</figure>'
    )


def class_bars(preview: DataPreview) -> str:
    """How often each class occurs, in figures and as bars."""
    if len(preview.labels) < 2:
        return ""
    total = sum(count for _, count in preview.labels)
    most = max(count for _, count in preview.labels)
    rows = [
        [name, count_text(count), f"{100 * count / total:.1f}%", _bar(count / most)]
        for name, count in preview.labels[:_MOST_CLASSES]
    ]
    left = len(preview.labels) - _MOST_CLASSES
    caption = f"Classes among the {preview.unit}s that were looked at."
    if left > 0:
        caption += f" {count_text(left)} more classes are not shown."
    heads = ["Class", "Count", "Share", "Against the largest"]
    return html_table(heads, rows, label="Classes", text_columns={0, 3}, caption=caption)


def _bar(share: float) -> Markup:
    inside = f'<span style="width:{100 * share:.1f}%"></span>'
    return Markup(f'<span class="sparkwright-share" aria-hidden="true">{inside}</span>')


def column_table(preview: DataPreview) -> str:
    """Statistics of each column."""
    if not preview.columns:
        return ""
    heads = [
        "Column",
        "Kind",
        "There",
        "Missing",
        "Different",
        "Mean",
        "Deviation",
        "Least",
        "Most",
        "Values",
    ]
    rows = [
        [
            column.name,
            kind_text(column),
            count_text(column.count),
            count_text(column.missing),
            count_text(column.distinct) if column.kind != "array" else "",
            _number(column.mean),
            _number(column.std),
            _number(column.minimum),
            _number(column.maximum),
            _spread(column),
        ]
        for column in preview.columns[:200]
    ]
    left = len(preview.columns) - 200
    caption = f"Looked at: {preview.extent}."
    if left > 0:
        caption += f" {count_text(left)} more columns are not shown."
    return html_table(
        heads,
        rows,
        label="Statistics of the columns",
        text_columns={1, 9},
        caption=caption,
    )


def kind_text(column: ColumnLook) -> str:
    """A word or two for what a column holds.

    Example:
        >>> kind_text(ColumnLook(name="image", kind="array", shape=(28, 28)))
        'array of 28 x 28'
    """
    words = {"integer": "whole numbers", "number": "numbers", "empty": "nothing"}
    if column.kind == "array" and column.shape is not None:
        return f"array of {' x '.join(map(str, column.shape))}"
    return words.get(column.kind, column.kind)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _spread(column: ColumnLook) -> object:
    """A small histogram of numbers; the most frequent texts."""
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
    """A source in a line.

    Example:
        >>> source_text(DataSource(format="csv", url="iris.csv", label="species"))
        'CSV: an example a line: iris.csv; label species, classification'
    """
    parts = [source.info.title]
    if source.url:
        parts.append(f": {source.url}")
    if source.label:
        parts.append(f"; label {source.label}, {source.task}")
    return "".join(parts)


def code_of(source: DataSource) -> str:
    """Python source that loads and splits it; why there is none, as a comment."""
    if source.problem is not None:
        return f"# {source.problem}\n"
    head = "import sparkwright as sw\n\nspark = sw.start_spark()\n"
    return head + source.to_code() + source.split.to_code()


def still(source: DataSource, preview: DataPreview | None) -> Block:
    """What stays in a saved notebook: the choice, what it looked like, the code."""
    parts = [f"<p><strong>{escaped(source_text(source))}</strong></p>"]
    lines = [source_text(source)]
    if preview is not None and preview.source == source:
        parts += [extent_figures(preview), problem_list(preview.problems), beginning(preview)]
        parts += [class_bars(preview)]
        if figures := figures_of(preview):
            lines.append(text_table(["figure", "value"], figures, text_columns={1}))
        lines += [problem.sentence for problem in preview.problems[:_MOST_PROBLEMS]]
    code = escaped(code_of(source))
    parts.append(f"<details><summary>As code</summary><pre>{code}</pre></details>")
    style = f"<style>{asset('data_picker.css')}</style>"
    return Block(html=style + "".join(parts), text="\n".join(lines), kind="data")
