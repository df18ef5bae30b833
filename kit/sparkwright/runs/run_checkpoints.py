"""The states of training on the driver: where a run starts, and what it keeps and writes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright._version import __version__
from sparkwright.masters.plan import TrainingPlan
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.mesh.framing import Message
from sparkwright.networks import pack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.workers.examples import Earlier, spans_left
from sparkwright.workers.protocol import Progress

from ._checkpoint import Checkpoint, CheckpointWriter, check_resumable
from ._observations import order_of, vector_of
from .begin import RunBeginning
from .outcome import Outcome
from .record import RunRecord

# Maximum time that the end of a run waits for the last checkpoint.
_LAST_CHECKPOINT_S = 60.0


class RunCheckpoints:
    """The checkpoint that a run goes on from, those that it writes, and a copy in memory."""

    # (fields, payload) from which workers start: the model, `resume`, or the copy
    start: tuple[dict[str, Any], tuple[Any, ...]]

    def __init__(self, beginning: RunBeginning) -> None:
        """Take the run's facts; nothing is written before `open`."""
        self.resume = beginning.resume  # after `fit` with the present workers
        self._beginning = beginning
        # The latest state of workers, in case all are lost; at first `resume`.
        self.copy = self._resumed()
        self._rows: tuple[int, ...] = ()
        self._writer: CheckpointWriter | None = None

    @property
    def earlier(self) -> Earlier | None:
        """What the workers of the checkpointed run left, if they were others."""
        return None if self.resume is None else self.resume.earlier

    def begin(self) -> None:
        """Take the state to start from: the checkpoint's, or that of the user's model now."""
        if self.resume is None:
            model = self._beginning.start
            self._set_start(model.vector(), pack_arrays(model.extras()))
        else:
            self._set_start(self.resume.vector, *self.resume.extras)

    def open(self, record: RunRecord) -> None:
        """Start writing, if the master wants checkpoints."""
        plan = self._beginning.master.checkpoint
        if plan is not None:
            wrote = partial(record.times.ran, PhaseCode.CHECKPOINT)
            self._writer = CheckpointWriter(plan.url, keep=plan.keep, wrote=wrote)

    def fit(self, rows: tuple[int, ...], *, is_stream: bool = False) -> None:
        """Go on from the checkpoint with workers that have `rows` examples."""
        if self.resume is None:
            return
        beginning = self._beginning
        check_resumable(
            self.resume,
            master=beginning.master.to_dict(),
            fingerprint=beginning.definition.architecture,
            rows=rows,
            epochs=beginning.epochs,
            is_stream=is_stream,
        )
        self.resume = resized(
            self.resume,
            rows=rows,
            master=beginning.master,
            extras_bytes=len(pack_arrays(beginning.start.extras())),
        )
        self._set_start(self.resume.vector, *self.resume.extras)
        self.copy = self._resumed()

    def _resumed(self) -> Outcome | None:
        if (found := self.resume) is None:
            return None
        counters = b"".join(found.extras)[: self._beginning.start.counter_bytes]
        return Outcome(vector=found.vector, counters=counters, progress=found.progress)

    def show(self, record: RunRecord, plan: TrainingPlan) -> None:
        """Set the record's plan, and its log before the checkpoint; `write` may follow."""
        self._rows = plan.rows
        found, first = self.resume, self._beginning.initial_epoch
        if found is not None:
            first = min(found.history.get("epoch", np.ones(1)).tolist(), default=1) - 1
        record.set_plan(replace(plan, first_epoch=int(first)))
        if found is not None:
            record.resumed(found.history, found.validation, found.progress)

    def keep(self, record: RunRecord, message: Message, progress: Progress, *, write: bool) -> None:
        """Keep a received state; with `write`, also write it as a checkpoint."""
        vector = vector_of(message)
        extras = bytes(memoryview(message.payload)[vector.nbytes :])
        self._set_start(vector, extras)
        counters = extras[: self._beginning.start.counter_bytes]
        self.copy = Outcome(vector=vector, counters=counters, progress=progress)
        if write:
            self.write(record, progress, vector, extras)

    def latest(self, result: Message | None) -> tuple[Outcome | None, bool]:
        """Return the later of the delivered state and the copy, and whether it is the copy."""
        copy = self.copy  # once: another thread may set a later one
        if result is None or (copy is not None and order_of(result) < copy.progress.order):
            return copy, copy is not None
        vector = vector_of(result)
        counters = bytes(memoryview(result.payload)[vector.nbytes :]) or None
        progress = Progress.from_dict(result.fields["progress"])
        return Outcome(vector=vector, counters=counters, progress=progress), False

    def _set_start(self, vector: NDArray[Any], *extras: bytes) -> None:
        self.start = {"size": int(vector.size)}, (vector, *extras)

    def write(
        self, record: RunRecord, progress: Progress, vector: NDArray[Any], extras: bytes
    ) -> None:
        """Write a checkpoint on another thread; no-op without a folder."""
        if self._writer is None:
            return
        beginning, status = self._beginning, record.status()
        self._writer.submit(
            Checkpoint(
                progress=progress,
                vector=vector,
                extras=(extras, *[b""] * (len(self._rows) - 1)),
                has_updater="moments" in beginning.master.exchange.what,
                master=beginning.master.to_dict(),
                fingerprint=beginning.definition.architecture,
                rows=self._rows,
                earlier=self.earlier,
                epochs=beginning.epochs,
                run=beginning.id,
                history=record.log.rows(),
                validation=tuple(point.to_dict() for point in status.validation),
                written=datetime.now(UTC).isoformat(timespec="seconds"),
                versions={"sparkwright": __version__},
                callbacks=beginning.callbacks.states(),
            )
        )

    def close(self) -> None:
        """Wait until the last checkpoint is written."""
        if self._writer is not None:
            self._writer.close(_LAST_CHECKPOINT_S)


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
