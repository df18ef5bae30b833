"""How the work was distributed: phases, workers, retries, skew. Pure."""

import numpy as np

from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_figures._blocks import table_block
from sparkwright_widgets._format import (
    bytes_text,
    count_text,
    escaped,
    loss_text,
    rate_text,
)
from sparkwright_widgets._timeline_figure import timeline_block

from ._facts import RunFacts


def distribution_blocks(facts: RunFacts) -> list[Block]:
    """The workers as a table, and the timeline if their phases were collected."""
    blocks = [_workers_block(facts)] if facts.status.workers else []
    if facts.timeline is not None and facts.timeline.tallies.count[1:].any():
        return [*blocks, timeline_block(facts.timeline)]
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
