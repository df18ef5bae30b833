"""Training of shares of a round, with parameter averaging."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.timeline import PhaseCode
from sparkwright.workers.work import Span

from ._control import Activity
from ._minibatches import Block, Minibatches, RoundDone
from ._phases import NO_PHASES, PhaseRecorder
from ._replica_base import Replica
from .requests import WorkerSettings
from .shard import Shard, ShardSource

# Target duration of a compiled call, which cannot be interrupted.
_CALL_S = 0.5
_THREAD = "sparkwright-prefetch"
Ahead = deque[tuple[Span, Future[list[Block]]]]  # minibatches that are being gathered


class Pause(NamedTuple):
    """A callback within a round."""

    after: int  # minibatches before the call, at least 1; a round with fewer does not call
    call: Callable[[], None]


class ShareTrainer:
    """Train shares of minibatches; prefetch those of the worker's own shard on a thread."""

    def __init__(
        self,
        settings: WorkerSettings[ParameterAveragingTrainingMaster],
        replica: Replica,
        shard: Shard,
        shards: ShardSource,
        phases: PhaseRecorder = NO_PHASES,
        activity: Activity | None = None,
    ) -> None:
        self._settings, self._rows, self._phases = settings, shard.rows, phases
        self._data_phase = PhaseCode.FIRST_DATA
        self._minibatches = Minibatches(settings, replica, shard, shards, phases, activity)
        self._ahead = Ahead()
        self._borrowed: tuple[Span, Future[list[Block]]] | None = None  # of another worker
        self._gatherer = (
            ThreadPoolExecutor(1, thread_name_prefix=_THREAD)
            if settings.master.prefetch_batches
            else None
        )

    def close(self) -> None:
        if self._gatherer is not None:
            self._gatherer.shutdown(wait=True, cancel_futures=True)

    def discard_borrowed(self) -> None:
        """Discard prefetched data of another worker, whose address may have changed."""
        self._borrowed = None

    def round(
        self,
        share: Span | None,
        *,
        stopping: threading.Event,  # ends training after a compiled call
        pause: Pause | None = None,
        next_borrowed: Span | None = None,  # span of another worker to prefetch
    ) -> RoundDone:
        """Train the minibatches of `share`; another worker's from the end, see `without`."""
        asked_s = time.monotonic()
        blocks = self._blocks(share, next_borrowed) if share is not None else []
        data_s = time.monotonic() - asked_s
        if blocks:
            self._phases.add(self._data_phase, asked_s, asked_s + data_s)
            self._data_phase = PhaseCode.DATA
        return self._minibatches.train(
            self._pieces(blocks, pause),
            share,
            data_s=data_s,
            backwards=share is not None and share.owner != self._settings.worker,
            stopping=stopping,
        )

    def _pieces(self, blocks: list[Block], pause: Pause | None) -> Iterator[Block]:
        """Split blocks into calls of about `_CALL_S` at most."""
        left = pause.after if pause is not None else 0
        for block in blocks:
            steps, start = next(iter(block.values())).shape[0], 0
            while start < steps:
                stop = min(steps, start + max(1, int(_CALL_S / self._minibatches.step_s)))
                if left:
                    stop = min(stop, start + left)
                yield {name: array[start:stop] for name, array in block.items()}
                # The caller has trained this piece when it requests the next one.
                if pause is not None and left and not (left := left - (stop - start)):
                    pause.call()
                start = stop

    def _blocks(self, share: Span, next_borrowed: Span | None) -> list[Block]:
        """Return the minibatches of a share, prefetched if possible."""
        if self._gatherer is None:
            return self._gather(share)
        if share.owner != self._settings.worker:
            if self._borrowed is None or self._borrowed[0] != share:
                self._borrowed = share, self._gatherer.submit(self._gather, share)
            _, gathered = self._borrowed
            self._borrowed = None
            if next_borrowed is not None:
                self._borrowed = next_borrowed, self._gatherer.submit(self._gather, next_borrowed)
            return gathered.result()
        while self._ahead and self._ahead[0][0] != share:
            self._ahead.popleft()[1].cancel()  # the run was rewound or has skipped minibatches
        master = self._settings.master
        depth = -(-master.prefetch_batches // master.frequency_in(share.epoch))
        nexts = self._upcoming(share, depth + 1)
        for span in nexts[len(self._ahead) :]:
            self._ahead.append((span, self._gatherer.submit(self._gather, span)))
        return self._ahead.popleft()[1].result()

    def _upcoming(self, share: Span, count: int) -> list[Span]:
        """Return this share and those that probably follow, up to the end of the data."""
        total = self._minibatches.per_epoch(share.owner, self._rows)
        found = [share]
        while len(found) < count:
            last = found[-1]
            epoch, start = (last.epoch, last.stop) if last.stop < total else (last.epoch + 1, 0)
            if epoch >= self._settings.epochs:
                break
            stop = min(start + self._settings.master.frequency_in(epoch), total)
            found.append(Span(last.owner, epoch, start, stop))
        return found

    def _gather(self, share: Span) -> list[Block]:
        blocks = self._minibatches.gather(share)
        if share.owner == self._settings.worker:
            return blocks
        return [{name: a[::-1] for name, a in block.items()} for block in reversed(blocks)]
