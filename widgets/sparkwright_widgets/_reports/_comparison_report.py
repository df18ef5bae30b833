"""The report of several runs: what came of each, their curves overlaid, what differed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.errors import ConfigurationError
from sparkwright.storage._files import write_bytes
from sparkwright_widgets._block import Block
from sparkwright_widgets._contract import Run
from sparkwright_widgets._curve_figure import start_at_zero
from sparkwright_widgets._evaluation_figures._blocks import (
    figure_block,
    legend_above,
    named_axes,
    short_name,
    table_block,
)
from sparkwright_widgets._figure_svg import COLOURS
from sparkwright_widgets._format import count_text, duration_text, escaped, loss_text, rate_text

from ._alternatives import with_alternative_texts
from ._epochs import Best, Epoch, best_of, direction_of, epochs_of
from ._evaluation_section import compared
from ._facts import RunFacts, facts_of
from ._folds import short_value
from ._page import Section, page, report_body
from ._pdf import pdf_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DRAWN = 12  # more lines cannot be told apart; the table holds all
_MOST_ROWS = 200
_STYLES = ("-", "--", "-.", ":")
_MARKERS = "os^DXPv<>*hp"
# What differs between any two runs, and says nothing of why they ended differently.
_NOT_COMPARED = {"environment", "data", "spark_settings", "partitions"}


def report_runs(
    runs: Sequence[Run] | Mapping[str, Run],
    url: str,
    *,
    title: str = "Comparison of runs",
    evaluations: Mapping[str, Any] | None = None,
) -> None:
    """Write a report that sets several runs side by side, to any URL.

    Args:
        runs: two or more, or by name; without names each has its title and number.
        url: where to; a name that ends in ".pdf" makes it a PDF.
        title: of the report.
        evaluations: name -> evaluations of that run, set side by side; default None: none.

    Raises:
        ConfigurationError: if there are no runs, or a PDF cannot be made.
        OSError: whatever the store says, naming `url`.
    """
    html = comparison_html(
        runs, title=title, evaluations=evaluations, made_at=datetime.now().astimezone()
    )
    write_bytes(url, pdf_of(html) if url.lower().endswith(".pdf") else html.encode())


def comparison_html(
    runs: Sequence[Run] | Mapping[str, Run],
    *,
    made_at: datetime,
    title: str = "Comparison of runs",
    evaluations: Mapping[str, Any] | None = None,
) -> str:
    """As `report_runs`, as HTML; `made_at` is told in its first line."""
    named = _named(runs)
    if not named:
        raise ConfigurationError("`runs` must hold at least one run. Received: none.")
    epochs = {name: epochs_of(facts) for name, facts in named.items()}
    best = {name: best_of(facts, epochs[name]) for name, facts in named.items()}
    sections = [
        Section(title="Results", html=_html([_results_block(named, best)])),
        Section(title="How they learnt", html=_html(_curve_blocks(epochs))),
        Section(title="Evaluation", html=_html(compared(evaluations or {}))),
        Section(title="What differed", html=_html([difference_block(named)])),
    ]
    many = f"{count_text(len(named))} runs" if len(named) != 1 else "one run"
    line = (
        f"Sparkwright report · {many} · "
        f'<time datetime="{made_at.isoformat(timespec="seconds")}">{made_at:%d %B %Y, %H:%M}</time>'
    )
    opening = f"<p><strong>{escaped(winner_sentence(best))}</strong></p>"
    body = report_body(title, opening, [section for section in sections if section.html])
    return with_alternative_texts(page(title=title, line=line, body=body))


def winner_sentence(best: Mapping[str, Best | None]) -> str:
    """Which run was the best, if all of them tell the same figure.

    Args:
        best: name -> the best epoch of that run; None: it has none.
    """
    known = {name: each for name, each in best.items() if each is not None}
    figures = {each.name for each in known.values()}
    if not known:
        return "No run has come to the end of an epoch."
    if len(figures) != 1:
        return "The runs were judged by different figures, so none is called the best."
    figure = figures.pop()
    sign = -1 if direction_of(figure) < 0 else 1
    first = max(known, key=lambda name: sign * known[name].value)
    ties = [name for name in known if known[name].value == known[first].value]
    if len(ties) == len(known) > 1:
        return f"All runs reach the same {figure}, {known[first].value:.4g}."
    return f"The best {figure}, {known[first].value:.4g}, is that of {' and '.join(ties)}."


def difference_block(named: Mapping[str, RunFacts]) -> Block:
    """The options whose values are not the same in all runs, as a table."""
    flat = {name: _flat(facts.configuration) for name, facts in named.items()}
    options = list(dict.fromkeys(option for each in flat.values() for option in each))
    rows = [
        [option, *values]
        for option in options
        if len(set(values := [each.get(option, "—") for each in flat.values()])) > 1
    ]
    if not rows:
        sentence = "The runs were configured alike."
        return Block(html=f"<p>{sentence}</p>", text=sentence, kind="differences")
    options_word = "options" if len(rows) != 1 else "option"
    return table_block(
        ["Option", *named],
        rows,
        caption=f"{count_text(len(rows))} {options_word} differed; all others were alike.",
        label="Options that differed",
        kind="differences",
        text_columns=range(1, len(named) + 1),
    )


def _named(runs: Sequence[Run] | Mapping[str, Run]) -> dict[str, RunFacts]:
    if isinstance(runs, Mapping):
        return {str(name): facts_of(run) for name, run in runs.items()}
    return {f"{number}. {run.title}": facts_of(run) for number, run in enumerate(runs, start=1)}


def _results_block(named: Mapping[str, RunFacts], best: Mapping[str, Best | None]) -> Block:
    heads = ["Run", "State", "Best", "In epoch", "Epochs", "Workers", "Examples/s", "Time"]
    rows: list[list[object]] = []
    for name, facts in named.items():
        status, found = facts.status, best[name]
        rows.append(
            [
                name,
                status.state,
                "—" if found is None else f"{found.name} {found.value:.4g}",
                "—" if found is None else count_text(found.epoch),
                f"{count_text(status.epoch)} of {count_text(status.epochs)}",
                count_text(len(status.workers)),
                rate_text(status.examples_per_s),
                duration_text(facts.seconds),
            ]
        )
    fastest = max(named, key=lambda name: named[name].status.examples_per_s)
    return table_block(
        heads,
        rows,
        caption=f"What came of each run; {fastest} trained the most examples a second.",
        label="Results of the runs",
        kind="results",
        text_columns=(1, 2),
    )


def _curve_blocks(epochs: Mapping[str, Sequence[Epoch]]) -> list[Block]:
    blocks: list[Block] = []
    validated = {
        name: {e.number: e.validation_loss for e in each if e.validation_loss is not None}
        for name, each in epochs.items()
    }
    trained = {name: {e.number: e.loss for e in each} for name, each in epochs.items()}
    metrics = dict.fromkeys(
        metric for each in epochs.values() for e in each for metric in e.validation_metrics
    )
    for title, lines in (
        ("validation loss", validated),
        *((f"validation {metric}", _metric(epochs, metric)) for metric in metrics),
        ("training loss", trained),
    ):
        if any(lines.values()):
            blocks.append(_curve_block(title, lines))
    return blocks


def _metric(epochs: Mapping[str, Sequence[Epoch]], metric: str) -> dict[str, dict[int, float]]:
    return {
        name: {
            e.number: e.validation_metrics[metric] for e in each if metric in e.validation_metrics
        }
        for name, each in epochs.items()
    }


def _curve_block(title: str, lines: Mapping[str, Mapping[int, float]]) -> Block:
    numbers = sorted({number for line in lines.values() for number in line})
    last = {name: line[max(line)] for name, line in lines.items() if line}
    is_loss = title.endswith("loss")
    low, high = min(last, key=lambda n: last[n]), max(last, key=lambda n: last[n])
    caption = f"{title[0].upper()}{title[1:]} by epoch"
    if len(last) > 1 and loss_text(last[low]) == loss_text(last[high]):
        caption += f": it ends at {loss_text(last[low])} in every run"
    elif len(last) > 1:
        caption += (
            f": it ends between {loss_text(last[low])} ({low}) and {loss_text(last[high])} ({high})"
        )
    shown = numbers[:_MOST_ROWS]
    return figure_block(
        _drawn(title, lines, starts_at_zero=is_loss),
        caption=f"{caption}.",
        heads=["Epoch", *lines],
        rows=[
            [count_text(number), *(loss_text(line.get(number)) for line in lines.values())]
            for number in shown
        ],
        label=f"{title[0].upper()}{title[1:]} of each run",
        kind="learning",
        left_out=len(numbers) - len(shown),
    )


def _drawn(
    title: str, lines: Mapping[str, Mapping[int, float]], *, starts_at_zero: bool
) -> "Figure":
    from matplotlib.ticker import MaxNLocator

    figure, axes = named_axes(x="epoch", y=title, width_inches=5.4, height_inches=3.2)
    for place, (name, line) in enumerate(list(lines.items())[:_MOST_DRAWN]):
        x = np.array(sorted(line))
        y = np.array([line[int(number)] for number in x], np.float64)
        axes.plot(
            x,
            np.where(np.isfinite(y), y, np.nan),
            color=COLOURS[place % len(COLOURS)],
            linestyle=_STYLES[place % len(_STYLES)],
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=4,
            markevery=max(1, len(x) // 40),
            label=short_name(name, 24),
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if starts_at_zero:
        start_at_zero(axes, np.array([v for line in lines.values() for v in line.values()]))
    legend_above(axes, columns=2)
    return figure


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings under names with dots, as text."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if not prefix and name in _NOT_COMPARED:
            continue
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = short_value(value)
    return found


def _html(blocks: Sequence[Block]) -> str:
    return "\n".join(
        f'<div class="sparkwright-block sparkwright-{escaped(block.kind)}">{block.html}</div>'
        for block in blocks
    )
