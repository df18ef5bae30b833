"""Render figures, tables and sentences of a forecast as HTML and text. Pure."""

from collections.abc import Sequence

import numpy as np

from sparkwright.partitions import PartitionForecast, PartitionLayout, PartitionSurvey
from sparkwright.partitions.forecasting import BANDWIDTH_BYTES_PER_S
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import bytes_text, count_text, duration_text, escaped, percent_text
from sparkwright_widgets._fragments import figure_list
from sparkwright_widgets._table import html_table, text_table
from sparkwright_widgets._ui import advice

from ._bars import Bars, bars_svg

MOST_TABLE_ROWS = 200
_ACTIONS = {"unchanged": "none", "grouped": "groups partitions", "shuffled": "moves rows"}
_KNOWN = {
    "exact": "Labels per worker: exact.",
    "expected": ("Labels per worker: expected values, assuming that each partition is shuffled."),
    "estimated": "Labels per worker: estimated from the sampled rows.",
    "none": "",
}


def figures(forecast: PartitionForecast) -> list[tuple[str, str]]:
    """Figures before and after the repartition, as (label, value) pairs."""
    moved, total = forecast.rows_moved, forecast.survey.total
    epochs = (forecast.minibatches_without, forecast.minibatches_after)
    pairs = [
        ("Rows", count_text(total)),
        ("Partitions → workers", f"{len(forecast.survey.rows)} → {forecast.plan.workers}"),
        ("Skew (largest / mean)", f"{forecast.now.skew:.2f} → {forecast.after.skew:.2f}"),
        ("Rows moved (once)", f"{count_text(moved)} ({percent_text(moved / max(1, total))})"),
        ("Minibatches per epoch", " → ".join(map(count_text, epochs))),
        (
            "Worker idle time",
            f"{_share(forecast.idle_without)} → {_share(forecast.idle_after)}",
        ),
    ]
    if forecast.label_forecast != "none":
        distances = f"{_share(forecast.now.label_skew)} → {_share(forecast.after.label_skew)}"
        pairs.append(("Label skew", distances))
    return pairs


def name_of(forecast: PartitionForecast) -> str:
    """Mode and strategy in words; only the mode if it is "never"."""
    plan = forecast.plan
    return plan.mode if plan.mode == "never" else f"{plan.mode}, strategy {plan.strategy}"


def choice_of(forecast: PartitionForecast) -> str:
    """Mode and strategy as a short button label."""
    plan = forecast.plan
    only = " if the counts differ" if plan.mode == "num_partitions_workers_differs" else ""
    return plan.mode if plan.mode == "never" else f"{plan.strategy}{only}"


def figures_html(forecast: PartitionForecast) -> str:
    helps = (
        " With gradient sharing, idle workers take over minibatches of busy ones."
        if forecast.kind == "sharing"
        else ""
    )
    labels = (
        " Label skew: the largest distance between the class distribution of one partition and "
        "that of all data."
        if forecast.label_forecast != "none"
        else ""
    )
    return figure_list(figures(forecast)) + advice(
        "Skew: partitions now → workers after the repartition. Minibatches and idle time: "
        f"without → with the repartition.{helps}{labels}"
    )


def advice_html(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in sentences)
    return f'<ul class="sparkwright-sentences">{items}</ul>'


def survey_html(survey: PartitionSurvey) -> str:
    """A sentence on what was counted and sampled, as HTML."""
    return f'<div class="sparkwright-survey">{escaped(survey.description)}</div>'


def pictures_html(forecast: PartitionForecast) -> str:
    """Bar charts of the partitions now and of the workers after the repartition."""
    names = forecast.survey.class_names
    now, then = (
        Bars(rows=layout.rows, labels=layout.labels, class_names=names, noun=noun)
        for layout, noun in ((forecast.now, "partition"), (forecast.after, "worker"))
    )
    svg = bars_svg(now, then)
    return f'<div class="sparkwright-bars">{svg}</div>{advice(_KNOWN[forecast.label_forecast])}'


def comparison(
    forecasts: Sequence[PartitionForecast],
    chosen: PartitionForecast,
    advised: PartitionForecast,
) -> tuple[list[str], list[list[object]]]:
    """Column titles and rows of the table of all modes and strategies."""
    timed = chosen.step_s is not None
    labeled = chosen.label_forecast != "none"
    sized = chosen.survey.bytes_per_row is not None
    heads = [
        "Repartition",
        "Strategy",
        "",
        "Action",
        "Rows moved",
        *(["Data moved", "Time to move"] if sized else []),
        "Skew",
        "Minibatches",
        *(["Saved per epoch"] if timed else []),
        "Idle",
        *(["Label skew"] if labeled else []),
    ]
    rows: list[list[object]] = []
    splitting = {each.plan.mode for each in forecasts if each.plan.action == "shuffled"}
    seen: set[str] = set()
    for each in forecasts:
        plan = each.plan
        matters = plan.mode in splitting  # whether the strategy makes a difference
        if plan.mode in seen and not matters:
            continue
        seen.add(plan.mode)
        is_chosen, is_advised = (
            plan.mode == one.plan.mode and (not matters or plan.strategy == one.plan.strategy)
            for one in (chosen, advised)
        )
        marks = [*(["▶ chosen"] if is_chosen else []), *(["✓ advised"] if is_advised else [])]
        rows.append(
            [
                plan.mode,
                plan.strategy if matters else "any",
                ", ".join(marks),
                _ACTIONS[plan.action],
                count_text(each.rows_moved),
                *([bytes_text(each.bytes_moved or 0), duration_text(each.move_s)] if sized else []),
                f"{each.after.skew:.2f}",
                count_text(each.minibatches_after),
                *([duration_text(max(0.0, each.seconds_saved or 0.0))] if timed else []),
                _share(each.idle_after),
                *([_share(each.after.label_skew)] if labeled else []),
            ]
        )
    return heads, rows


def comparison_html(
    forecasts: Sequence[PartitionForecast],
    chosen: PartitionForecast,
    advised: PartitionForecast,
) -> str:
    """The table of all modes and strategies, with the bandwidth behind its times."""
    heads, rows = comparison(forecasts, chosen, advised)
    table = html_table(
        heads,
        rows,
        label="All repartition modes",
        text_columns=(1, 2, 3),
        caption="All repartition modes; minibatches and idle time per epoch",
    )
    if chosen.survey.bytes_per_row is None:
        return table
    speed = f"{bytes_text(BANDWIDTH_BYTES_PER_S)} per second and worker"
    return f"{table}{advice(f'Time to move: at an assumed {speed}.')}"


def numbers_html(forecast: PartitionForecast) -> str:
    """The chart data as a table, in a fold."""
    heads, rows = _numbers(forecast)
    left_out = max(len(forecast.now.rows), len(forecast.after.rows)) - MOST_TABLE_ROWS
    more = f"<p>{count_text(left_out)} more are not listed.</p>" if left_out > 0 else ""
    table = html_table(heads, rows, label="Rows and labels of each partition and worker")
    return f"<details><summary>Chart data as a table</summary>{table}{more}</details>"


def still_block(
    forecast: PartitionForecast,
    forecasts: Sequence[PartitionForecast],
    advised: PartitionForecast,
    sentences: Sequence[str],
    *,
    style: str,
) -> Block:
    """The preview without controls, for saved notebooks and reports."""
    plan = forecast.plan
    title = f"Repartition {name_of(forecast)}, {plan.workers} workers"
    html = "".join(
        [
            f"<style>{style}</style><p><b>{escaped(title)}</b></p>",
            survey_html(forecast.survey),
            figures_html(forecast),
            advice_html(sentences),
            pictures_html(forecast),
            comparison_html(forecasts, forecast, advised),
            numbers_html(forecast),
        ]
    )
    heads, rows = comparison(forecasts, forecast, advised)
    text = "\n".join(
        [
            title,
            forecast.survey.description,
            *(f"{label}: {value}" for label, value in figures(forecast)),
            *sentences,
            text_table(heads, rows, text_columns=(1, 2, 3)),
        ]
    )
    return Block(html=html, text=text, kind="partition-preview")


def _numbers(forecast: PartitionForecast) -> tuple[list[str], list[list[object]]]:
    now, after = forecast.now, forecast.after
    count = min(MOST_TABLE_ROWS, max(len(now.rows), len(after.rows)))
    labeled = forecast.label_forecast != "none"
    heads = ["Number", "Partition rows now", "Worker rows after"]
    heads += ["Label skew now", "after", "Most frequent now", "after"] if labeled else []
    names = forecast.survey.class_names
    off = (now.label_distances, after.label_distances) if labeled else ()
    rows: list[list[object]] = []
    for number in range(count):
        line: list[object] = [number]
        for layout in (now, after):
            held = layout.rows
            line.append(count_text(held[number]) if number < len(held) else "—")
        for distances in off:
            line.append(_share(distances[number]) if number < len(distances) else "—")
        if labeled:
            line += [_most_frequent(layout, number, names) for layout in (now, after)]
        rows.append(line)
    return heads, rows


def _most_frequent(layout: PartitionLayout, number: int, names: tuple[str, ...]) -> str:
    if number >= len(layout.rows) or not layout.labels[number].sum():
        return "—"
    labels = layout.labels[number]
    best = int(np.argmax(labels))
    return f"{names[best]} ({_share(labels[best] / labels.sum())})"


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}"
