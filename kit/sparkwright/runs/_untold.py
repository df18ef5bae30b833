"""Which epochs minibatches belong to that count, but that no worker has reported; pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters import TrainingPlan

from ._protocol import Progress

Counts = NDArray[np.int64]


def untold_rows(
    plan: TrainingPlan, progress: Progress, rows: Mapping[str, Any]
) -> dict[int, dict[str, Counts]]:
    """The epoch, round and examples of each minibatch that counts and is not among `rows`.

    Of an epoch everything counts but what is left to do. So there are as many minibatches of each
    epoch, and of each worker, as were trained. If several workers were lost while they trained one
    another's data, it is a guess which of them trained which minibatch.

    Args:
        plan: how many minibatches an epoch has.
        progress: what counts, and what is left to do.
        rows: the log's columns worker, epoch and examples.

    Returns:
        Worker -> columns "epoch", "round" and "examples", in the order of the epochs; workers that
        have reported everything are left out.
    """
    totals, size = np.array(plan.minibatches, np.int64), plan.batch_size
    epochs = max(progress.opened, progress.epoch + 1, int(np.max(rows["epoch"], initial=0)))
    told = np.zeros((plan.workers, epochs), np.int64)
    told_examples = np.zeros_like(told)
    place = rows["worker"], rows["epoch"] - 1
    np.add.at(told, place, 1)
    np.add.at(told_examples, place, rows["examples"])

    # Of each worker's data, and of each epoch, what counts.
    done = np.zeros_like(told)
    done[:, : progress.opened] = totals[:, None]
    done_examples = np.zeros_like(told)
    done_examples[:, : progress.opened] = np.array(plan.rows, np.int64)[:, None]
    for owner, epoch, start, stop in progress.todo:
        done[owner, epoch] -= stop - start
        count = plan.rows[owner]
        done_examples[owner, epoch] -= min(count, stop * size) - min(count, start * size)

    # Less than 0: a lost worker reported minibatches that another worker had to train again.
    missing = np.maximum((done - told).sum(axis=0), 0)
    smaller = np.maximum(size * missing - (done_examples - told_examples).sum(axis=0), 0)
    expected = np.array(progress.steps, np.int64) - told.sum(axis=1)
    found: dict[int, dict[str, Counts]] = {}
    lost = [int(worker) for worker in np.flatnonzero(expected > 0)]
    own = {worker: np.maximum(done[worker] - told[worker], 0) for worker in lost}
    taken: dict[int, Counts] = {}
    for worker in lost:
        taken[worker] = _first(np.minimum(own[worker], missing), int(expected[worker]))
        missing -= taken[worker]
    for worker in lost:
        # After what others did of its data, and what is known of no epoch at all.
        for there in (missing, np.maximum(totals[worker] - told[worker] - taken[worker], 0)):
            more = _first(there, int(expected[worker] - taken[worker].sum()))
            taken[worker] += more
            missing -= np.minimum(more, missing)
        taken[worker][progress.epoch - 1] += expected[worker] - taken[worker].sum()
        count = int(taken[worker].sum())
        by = size * count - (progress.examples[worker] - int(told_examples[worker].sum()))
        cut = _first(np.minimum(smaller, (size - 1) * taken[worker]), by)
        smaller -= cut
        numbers = [
            np.arange(n, n + more) for n, more in zip(told[worker], taken[worker], strict=True)
        ]
        epoch = np.repeat(np.arange(epochs), taken[worker])
        found[worker] = {
            "epoch": epoch + 1,
            "round": _rounds(plan, progress, epoch, np.concatenate(numbers)),
            "examples": _examples(size, epoch, cut, by),
        }
    return found


def _first(there: Counts, wanted: int) -> Counts:
    """As much of `there` as is `wanted`, of the first epochs first."""
    before = np.cumsum(there) - there
    return np.clip(wanted - before, 0, there)


def _rounds(plan: TrainingPlan, progress: Progress, epoch: Counts, number: Counts) -> Counts:
    """The round of each minibatch, its worker's `number`th (from 0) of its epoch."""
    if plan.kind == "sharing":
        return number + 1
    last = np.where(epoch == progress.epoch, progress.round, plan.rounds)
    return np.minimum(number // plan.averaging_frequency + 1, np.maximum(last, 1))


def _examples(size: int, epoch: Counts, cut: Counts, by: int) -> Counts:
    """Full minibatches, but for `cut[e]` examples less in epoch e, and `by` less altogether."""
    examples = np.full(len(epoch), size, np.int64)
    # The last minibatches of an epoch, and of all, are the smaller ones; none is empty.
    everywhere = np.ones(len(epoch), bool)
    for which, less in [(epoch == e, int(cut[e])) for e in np.flatnonzero(cut)] + [
        (everywhere, by - int(cut.sum()))
    ]:
        last_first = np.flatnonzero(which)[::-1]
        examples[last_first] -= _first(examples[last_first] - 1, less)
    return examples
