"""The checkpoint that a run goes on from, and those that it writes."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright._version import __version__
from sparkwright.masters.plan import TrainingPlan
from sparkwright.networks import pack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.workers.examples import Earlier
from sparkwright.workers.protocol import Progress

from ._checkpoint import Checkpoint, CheckpointWriter, check_resumable
from ._resizing import resized
from .begin import RunBeginning
from .record import RunRecord

# Maximum time that the end of a run waits for the last checkpoint.
_LAST_CHECKPOINT_S = 60.0


class RunCheckpoints:
    """The checkpoint that a run goes on from, and those that it writes.

    Attributes:
        resume: the checkpoint to go on from, after `fit` with the present workers; None: none.
    """

    def __init__(self, beginning: RunBeginning) -> None:
        """Take the run's facts; nothing is written before `open`."""
        self.resume = beginning.resume
        self._beginning = beginning
        self._rows: tuple[int, ...] = ()
        self._writer: CheckpointWriter | None = None

    @property
    def earlier(self) -> Earlier | None:
        """What the workers of the checkpointed run left, if they were others."""
        return None if self.resume is None else self.resume.earlier

    def open(self, record: RunRecord) -> None:
        """Start writing, if the master wants checkpoints."""
        plan = self._beginning.master.checkpoint
        if plan is not None:
            wrote = partial(record.times.ran, PhaseCode.CHECKPOINT)
            self._writer = CheckpointWriter(plan.url, keep=plan.keep, wrote=wrote)

    def fit(self, rows: tuple[int, ...], *, is_stream: bool = False) -> None:
        """Go on from the checkpoint with workers that have `rows` examples.

        Raises:
            ConfigurationError: if the checkpoint is of other data or settings.
        """
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

    def show(self, record: RunRecord, plan: TrainingPlan) -> None:
        """Set the record's plan, and its log before the checkpoint; `write` may follow."""
        self._rows = plan.rows
        found, first = self.resume, self._beginning.initial_epoch
        if found is not None:
            first = min(found.history.get("epoch", np.ones(1)).tolist(), default=1) - 1
        record.set_plan(replace(plan, first_epoch=int(first)))
        if found is not None:
            record.resumed(found.history, found.validation, found.progress)

    def write(
        self, record: RunRecord, progress: Progress, vector: NDArray[Any], extras: bytes
    ) -> None:
        """Write a checkpoint on another thread; no-op without a folder.

        Args:
            record: the run's record.
            progress: what `vector` contains.
            vector: the state that is averaged.
            extras: the state of worker 0 that is not, see `RunMember.write_extras`.
        """
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
