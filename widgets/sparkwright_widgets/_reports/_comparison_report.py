"""The report of several runs: results, overlaid curves, different options."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation.comparison import direction_of
from sparkwright.storage.files import write_bytes
from sparkwright_widgets._block import Block, sentence_block, table_block
from sparkwright_widgets._comparison_table import differing
from sparkwright_widgets._contract import ComparedRun
from sparkwright_widgets._evaluation_blocks import compared
from sparkwright_widgets._format import (
    count_text,
    counted,
    duration_text,
    escaped,
    rate_text,
    short_number,
)

from ._facts import Best, RunFacts, best_of, epochs_of, facts_of
from ._learning_blocks import curve_blocks
from ._page import Section, report_page
from ._pdf import pdf_of


def report_runs(
    runs: Sequence[ComparedRun] | Mapping[str, ComparedRun],
    url: str,
    *,
    title: str = "Comparison of runs",
    evaluations: Mapping[str, Any] | None = None,
) -> None:
    """Write a report that compares several runs, to any URL.

    Args:
        runs: runs, including those of a `RunStore`, or a dict of runs by name. Without names, runs
            are named by number and title.
        url: path or URL of the report; with the suffix ".pdf", it is a PDF.
        title: title of the report.
        evaluations: evaluations of each run by name; default None: no evaluations.

    Raises:
        ConfigurationError: if there are no runs, or a PDF cannot be made.
        OSError: if `url` cannot be written.
    """
    html = comparison_html(
        runs, title=title, evaluations=evaluations, made_at=datetime.now().astimezone()
    )
    write_bytes(url, pdf_of(html) if url.lower().endswith(".pdf") else html.encode())


def comparison_html(
    runs: Sequence[ComparedRun] | Mapping[str, ComparedRun],
    *,
    made_at: datetime,
    title: str = "Comparison of runs",
    evaluations: Mapping[str, Any] | None = None,
) -> str:
    """Return the report of `report_runs` as HTML; `made_at` is its date."""
    named = _named(runs)
    if not named:
        raise ConfigurationError("`runs` must hold at least one run. Received: none.")
    epochs = {name: epochs_of(facts) for name, facts in named.items()}
    best = {name: best_of(facts, epochs[name]) for name, facts in named.items()}
    return report_page(
        title=title,
        about=counted(len(named), "run"),
        made_at=made_at,
        opening=f"<p><strong>{escaped(winner_sentence(best))}</strong></p>",
        sections=[
            Section("Results", [_results_block(named, best)]),
            Section("Learning curves", curve_blocks(epochs)),
            Section("Evaluation", compared(evaluations or {})),
            Section("Differences", [difference_block(named)]),
        ],
    )


def winner_sentence(best: Mapping[str, Best | None]) -> str:
    """Return a sentence that names the best run, if all runs are judged by the same figure."""
    known = {name: each for name, each in best.items() if each is not None}
    figures = {each.name for each in known.values()}
    if not known:
        return "No run has completed an epoch."
    if len(figures) != 1:
        return "The runs report different metrics, so they are not ranked."
    figure = figures.pop()
    sign = -1 if direction_of(figure) < 0 else 1
    first = max(known, key=lambda name: sign * known[name].value)
    ties = [name for name in known if known[name].value == known[first].value]
    if len(ties) == len(known) > 1:
        return f"All runs reach the same {figure}, {short_number(known[first].value)}."
    return (
        f"The best {figure}, {short_number(known[first].value)}, is that of {' and '.join(ties)}."
    )


def difference_block(named: Mapping[str, RunFacts]) -> Block:
    """Return a table of the options whose values differ between runs."""
    rows = differing([facts.configuration for facts in named.values()])
    if not rows:
        return sentence_block("The runs have the same configuration.", kind="differences")
    return table_block(
        ["Option", *named],
        rows,
        caption=f"{counted(len(rows), 'option')} differed; all others were equal.",
        label="Different options",
        kind="differences",
        text_columns=range(1, len(named) + 1),
    )


def _named(runs: Sequence[ComparedRun] | Mapping[str, ComparedRun]) -> dict[str, RunFacts]:
    if isinstance(runs, Mapping):
        return {str(name): facts_of(run) for name, run in runs.items()}
    return {f"{number}. {run.title}": facts_of(run) for number, run in enumerate(runs, start=1)}


def _results_block(named: Mapping[str, RunFacts], best: Mapping[str, Best | None]) -> Block:
    rows: list[list[object]] = []
    for name, facts in named.items():
        status, found = facts.status, best[name]
        rows.append(
            [
                name,
                status.state,
                "—" if found is None else f"{found.name} {short_number(found.value)}",
                "—" if found is None else count_text(found.epoch),
                f"{count_text(status.epoch)} of {count_text(status.epochs)}",
                count_text(len(status.workers)),
                rate_text(status.examples_per_s),
                duration_text(facts.seconds),
            ]
        )
    fastest = max(named, key=lambda name: named[name].status.examples_per_s)
    return table_block(
        ["Run", "State", "Best", "In epoch", "Epochs", "Workers", "Examples/s", "Time"],
        rows,
        caption=f"Results of each run; {fastest} trained the most examples per second.",
        label="Results of the runs",
        kind="results",
        text_columns=(1, 2),
    )
