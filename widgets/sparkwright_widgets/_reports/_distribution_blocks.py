"""How the work was distributed: phases, workers, retries, skew. Pure."""

from typing import TYPE_CHECKING

import numpy as np

from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_figures._blocks import (
    figure_block,
    legend_above,
    named_axes,
    table_block,
)
from sparkwright_widgets._figure_svg import COLOURS, INK
from sparkwright_widgets._format import (
    bytes_text,
    count_text,
    duration_text,
    escaped,
    loss_text,
    rate_text,
)

from ._facts import RunFacts
from ._phases import PhaseTimes, phase_times, time_split_sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_WORKERS = 24  # of the picture; the table holds all
_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")


def distribution_blocks(facts: RunFacts) -> list[Block]:
    """The workers as a table, and the phases as a picture if they were collected."""
    times = phase_times(facts.phases)
    blocks = [_workers_block(facts)] if facts.status.workers else []
    if times is not None:
        return [*blocks, _phases_block(times)]
    sentence = (
        "The phases of the workers were not collected. A training master with "
        "collect_training_stats=True measures them."
    )
    note = Block(html=f"<p>{escaped(sentence)}</p>", text=sentence, kind="phases")
    return [*blocks, note]


def _workers_block(facts: RunFacts) -> Block:
    workers, rows = facts.status.workers, facts.rows
    sends = any(worker.sent_bytes for worker in workers)
    heads = ["Worker", "Host", "Rows", "Minibatches", "Examples/s, median", "Last loss", "Restarts"]
    table: list[list[object]] = []
    for worker in workers:
        mine = rows["worker"] == worker.worker
        rate = rows["examples_per_s"][mine]
        known = rate[np.isfinite(rate) & (rate > 0)]
        table.append(
            [
                worker.worker,
                worker.host or "—",
                count_text(worker.rows),
                count_text(worker.steps),
                # Not the mean: the first minibatches wait for a compiler.
                rate_text(float(np.median(known)) if len(known) else float("nan")),
                loss_text(worker.loss),
                count_text(worker.restarts),
                *([bytes_text(worker.sent_bytes)] if sends else []),
            ]
        )
    return table_block(
        [*heads, *(["Sent"] if sends else [])],
        table,
        caption=_workers_caption(facts),
        label="Workers",
        kind="workers",
        text_columns=(1,),
    )


def _workers_caption(facts: RunFacts) -> str:
    workers = facts.status.workers
    rows = [worker.rows for worker in workers]
    restarts = sum(worker.restarts for worker in workers)
    mean = sum(rows) / len(rows)
    skew = f"; the fullest held {max(rows) / mean:.2f} times the mean" if mean else ""
    again = "no worker had to be started again"
    if restarts:
        again = f"workers were started again {count_text(restarts)} times"
        if restarts == 1:
            again = "one worker was started again once"
    many = f"{count_text(len(workers))} workers" if len(workers) != 1 else "One worker"
    return (
        f"{many} trained {rate_text(facts.status.examples_per_s)} examples a second together"
        f"{skew}; {again}."
    )


def _phases_block(times: PhaseTimes) -> Block:
    total = times.seconds.sum(axis=1)
    heads = ["Worker", *(f"{phase} (s)" for phase in times.phases), "Measured (s)"]
    rows = [
        [worker, *(f"{value:.3f}" for value in times.seconds[row]), f"{total[row]:.3f}"]
        for row, worker in enumerate(times.workers)
    ]
    split = ["all", *(f"{value:.3f}" for value in times.total_s), f"{total.sum():.3f}"]
    span = duration_text(float(times.edges_s[-1] - times.edges_s[0]))
    left_out = max(0, len(times.workers) - _MOST_WORKERS)
    more = f" {count_text(left_out)} workers are in the table only." if left_out else ""
    return figure_block(
        _drawn(times),
        caption=f"{time_split_sentence(times)}{more}",
        heads=heads,
        rows=[*rows, split],
        label=f"Phases of each worker over {span}",
        kind="phases",
    )


def _drawn(times: PhaseTimes) -> "Figure":
    count = min(len(times.workers), _MOST_WORKERS)
    figure, axes = named_axes(
        x="seconds since the run began",
        y="worker",
        width_inches=6.0,
        height_inches=1.5 + 0.42 * count,
    )
    edges = np.repeat(times.edges_s, 2)[1:-1]
    for column, phase in enumerate(times.phases):
        for row in range(count):
            below = times.shares[row, :column].sum(axis=0)
            above = np.minimum(below + times.shares[row, column], 1.0)
            # Each worker has a lane of its own; what nothing fills was not measured.
            axes.fill_between(
                edges,
                np.repeat(row - 0.4 + 0.8 * below, 2),
                np.repeat(row - 0.4 + 0.8 * above, 2),
                facecolor=COLOURS[column % len(COLOURS)],
                hatch=_HATCHES[column % len(_HATCHES)],
                edgecolor="white",
                linewidth=0,
                label=phase if row == 0 else None,
            )
    axes.set_yticks(range(count), [str(worker) for worker in times.workers[:count]])
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(visible=False)
    axes.tick_params(colors=INK)
    legend_above(axes, columns=len(times.phases))
    return figure
