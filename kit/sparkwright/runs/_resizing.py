"""Continue a checkpoint with another number of workers; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters.training_master import TrainingMaster
from sparkwright.workers.examples import Earlier, spans_left

from ._checkpoint_format import Checkpoint


def resized(
    checkpoint: Checkpoint, *, rows: Sequence[int], master: TrainingMaster, extras_bytes: int
) -> Checkpoint:
    """Return a checkpoint of workers with `rows` examples, with the same average and log.

    The examples that remain in its epoch stay those, in other minibatches. All workers continue
    with the first one's state that is not averaged. Worker w stands for the workers w, w + n, … of
    the checkpoint.
    """
    count, old = len(rows), checkpoint.rows
    if tuple(rows) == old:
        return checkpoint
    progress, earlier = checkpoint.progress, checkpoint.earlier
    first = b"".join(checkpoint.extras)[:extras_bytes]
    if tuple(rows[: len(old)]) != old:  # else only workers without data are added
        earlier = Earlier(old, progress.todo, earlier) if progress.todo else None
        todo = () if earlier is None else spans_left(earlier, rows=rows, master=master)
        progress = replace(progress, todo=todo)
    return replace(
        checkpoint,
        rows=tuple(rows),
        progress=replace(
            progress,
            steps=_folded(progress.steps, count),
            examples=_folded(progress.examples, count),
        ),
        extras=(first, *[b""] * (count - 1)) if first else (),
        history=_relabeled(checkpoint.history, count),
        earlier=earlier,
    )


def _folded(counts: Sequence[int], workers: int) -> tuple[int, ...]:
    return tuple(sum(counts[worker::workers]) for worker in range(workers))


def _relabeled(history: Mapping[str, NDArray[Any]], workers: int) -> Mapping[str, NDArray[Any]]:
    """Assign the log's rows to the workers, and number each worker's minibatches again."""
    if not len(history.get("worker", ())) or history["worker"].max() < workers:
        return history
    worker, step = history["worker"] % workers, history["step"].copy()
    for each in range(workers):
        step[worker == each] = np.arange(1, np.count_nonzero(worker == each) + 1)
    return {**history, "worker": worker, "step": step}
