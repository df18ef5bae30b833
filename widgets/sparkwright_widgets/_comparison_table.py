"""Tables of the results of several runs, and of their different settings. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.runs import differing as differing_settings

from ._contract import ComparedRun, Status
from ._format import duration_text, number_text, rate_text, short_value, shortened

_MOST_METRICS = 6
_MOST_SETTINGS = 60
_LONGEST_VALUE = 80

Table = tuple[list[str], list[list[str]]]


def results(
    names: Sequence[str], statuses: Sequence[Status], mean_losses: Sequence[float | None]
) -> Table:
    """Headings and a row for each run: its state, losses, metrics, speed and time."""
    last = [status.validation[-1] if status.validation else None for status in statuses]
    metrics = dict.fromkeys(name for point in last if point for name in point.metrics)
    shown = list(metrics)[:_MOST_METRICS]
    heads = ["Run", "State", "Epochs", "Loss", "Validation loss"]
    heads += [f"Validation {name}" for name in shown]
    heads += ["Workers", "Examples/s", "Time"]
    rows: list[list[str]] = []
    for name, status, loss, point in zip(names, statuses, mean_losses, last, strict=True):
        found: Mapping[str, float] = {} if point is None else point.metrics
        rows.append(
            [
                name,
                status.state,
                f"{status.epoch} of {status.epochs}",
                number_text(loss),
                number_text(None if point is None else point.loss),
                *(number_text(found.get(metric)) for metric in shown),
                str(len(status.workers)),
                rate_text(status.examples_per_s),
                duration_text(status.elapsed_s),
            ]
        )
    return heads, rows


def differences(names: Sequence[str], runs: Sequence[ComparedRun]) -> Table:
    """Headings and a row for each setting that differs and affects results; at most 60."""
    rows = differing([run.configuration for run in runs])
    return ["Setting", *names], rows[:_MOST_SETTINGS]


def differing(settings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each setting that differs and affects results: its name and its values."""
    found = differing_settings(settings, matters=True)
    return [[name, *map(_value_text, values)] for name, values in found.items()]


def distinct_names(runs: Sequence[ComparedRun]) -> list[str]:
    """A name for each run: its title, with its id if titles are equal."""
    titles = [run.title for run in runs]
    names = [
        title if titles.count(title) == 1 else f"{run.id}: {title}"
        for run, title in zip(runs, titles, strict=True)
    ]
    return numbered(names)


def numbered(names: Sequence[str]) -> list[str]:
    """Distinct names: equal ones are numbered."""
    return [
        name if names.count(name) == 1 else f"{number}. {name}"
        for number, name in enumerate(names, start=1)
    ]


def _value_text(value: Any) -> str:
    return shortened(short_value(value), _LONGEST_VALUE)
