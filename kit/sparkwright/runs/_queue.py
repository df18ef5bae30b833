"""Which earlier runs hold the task slots that a run waits for."""

import contextlib
import threading
from collections.abc import Generator
from typing import NamedTuple

from .record import RunRecord


class Claim(NamedTuple):
    """The task slots that a run takes.

    Attributes:
        place: what has the slots: a Spark application, by id. Runs in one place share them.
        workers: how many slots the run needs to begin.
        slots: how many the place has; None: that can change, so nothing is known.
    """

    place: str
    workers: int
    slots: int | None


class _Entry(NamedTuple):
    name: str
    claim: Claim
    record: RunRecord


class RunQueue:
    """The runs of this process that have not ended, in the order in which they began."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def turn(self, name: str, claim: Claim | None, record: RunRecord) -> Generator[None]:
        """Inform `record` of the runs that it waits for, and others of this one."""
        if claim is None:
            yield
            return
        entry = _Entry(name, claim, record)
        with self._lock:
            self._entries.append(entry)
            self._inform()
        try:
            yield
        finally:
            with self._lock:
                self._entries.remove(entry)
                self._inform()

    def _inform(self) -> None:
        for number, (_, (place, wanted, slots), record) in enumerate(self._entries):
            earlier = [each for each in self._entries[:number] if each.claim.place == place]
            is_full = slots is not None and wanted + sum(map(_held, earlier)) > slots
            record.waits_behind(tuple(each.name for each in earlier) if is_full else ())


def _held(entry: _Entry) -> int:
    """Slots that a run has or waits for; those of workers that have joined it among them."""
    present = sum(worker.state != "waiting" for worker in entry.record.status().workers)
    return max(entry.claim.workers, present)


QUEUE = RunQueue()
