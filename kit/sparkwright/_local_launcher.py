"""Workers of a run as processes on this machine."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparkwright.data import (
    DataSet,
    TfData,
)
from sparkwright.partitions import plan_repartition
from sparkwright.runs.begin import (
    Claim,
)
from sparkwright.timeline import PhaseCode
from sparkwright.workers.failure import failure_of
from sparkwright.workers.folders import remove
from sparkwright.workers.pool import TrainerPool
from sparkwright.workers.protocol import Failure
from sparkwright.workers.requests import fill_in
from sparkwright.workers.shard import ShardWriter

_LOOPBACK = "127.0.0.1"
# Spark's default number of attempts of a task.
_ATTEMPTS = 4
# A trainer process starts in about ten seconds.
_REPLACED_WITHIN_S = 120.0


class LocalLauncher:
    """Starts a run's workers: one thread per worker, connected to a trainer process."""

    def __init__(
        self,
        *,
        pool: TrainerPool,
        devices: Sequence[str],
        required: int,
        cores: int,
        data: DataSet | TfData,
        validation: DataSet | None,
    ) -> None:
        """Workers start with `prepare`."""
        self.workers, self.required = len(devices), required
        self.slots: int | None = self.workers
        self.claim: Claim | None = None
        self.bind_host = self.advertised_host = self.worker_host = _LOOPBACK
        self.consume = False
        self.stream = data if isinstance(data, TfData) else None
        self._data = None if isinstance(data, TfData) else data
        self.facts = _facts(self._data, validation, required)
        self._pool, self._cores, self._devices = pool, cores, tuple(devices)
        self._validation = validation
        self._folder: Path | None = None
        self.max_failures, self.replacement_timeout_s = _ATTEMPTS, _REPLACED_WITHIN_S
        self._attempts = itertools.count()
        # Attempt -> its worker, while running; attempt -> its trainer, once assigned.
        self._running: dict[int, int] = {}
        self._trainers: dict[int, Any] = {}
        self._given_up: set[int] = set()
        self._changed = threading.Condition()
        self._cancelled = False

    def prepare(self, enter: Callable[[PhaseCode], None]) -> tuple[int, ...] | None:
        """Write each worker's examples to files; return the counts of examples, if known."""
        enter(PhaseCode.EXPORT)
        self._folder = self._pool.scratch()
        for kind, dataset in (("train", self._data), ("validation", self._validation)):
            parts = itertools.chain(_blocks(dataset, self.required), itertools.repeat(None))
            for worker, part in zip(range(self.workers), parts, strict=False):
                with ShardWriter(self._folder / f"{kind}-{worker}", worker=worker) as writer:
                    if part is not None:
                        writer.append(part)
        if self.stream is not None:
            return self.stream.rows(self.required)
        return tuple(0 if b is None else len(b) for b in _blocks(self._data, self.required))

    def launch(
        self, worker: int, template: Any, ended: Callable[[Failure | None], None], *, replaces: bool
    ) -> None:
        """Send the request to a trainer process on a new thread; see `Launcher.launch`."""
        with self._changed:
            if self._cancelled:
                return
            if replaces:
                self._give_up(each for each, of in self._running.items() if of == worker)
            attempt = next(self._attempts)
            self._running[attempt] = worker

        def work() -> None:
            failure = self._work(template, worker, attempt)
            with self._changed:
                self._trainers.pop(attempt, None)
                del self._running[attempt]
                self._changed.notify_all()
            ended(None if attempt in self._given_up else failure)

        threading.Thread(target=work, name=f"sparkwright-local-{worker}", daemon=True).start()

    def withdraw(self, worker: int) -> None:
        """End the worker, even while its process starts; see `Launcher.withdraw`."""
        with self._changed:
            self._give_up(each for each, of in self._running.items() if of == worker)

    def finish(self, timeout_s: float) -> bool:
        """Wait until all tasks have ended; see `Launcher.finish`."""

        def is_over() -> bool:
            # An abandoned attempt without a process ends as soon as it gets one.
            return all(a in self._given_up and a not in self._trainers for a in self._running)

        with self._changed:
            return self._changed.wait_for(is_over, timeout_s)

    def cancel(self) -> None:
        """Disconnect from all trainers, which then end the run."""
        with self._changed:
            self._cancelled = True
            self._give_up(self._running)

    def _give_up(self, attempts: Iterable[int]) -> None:
        """Disconnect the trainers of these attempts, which ends the wait for their answers."""
        self._given_up.update(attempts)
        for attempt, trainer in self._trainers.items():
            if attempt in self._given_up:
                trainer.close()

    def clean_up(self) -> None:
        """Remove the files."""
        if self._folder is not None:
            remove(self._folder)

    def _work(self, template: Any, worker: int, attempt: int) -> Failure | None:
        """Run one attempt of one worker; return its failure or None."""
        began_s = time.monotonic()
        try:
            device = self._devices[worker]
            with self._pool.borrow(
                device=device,
                cores=self._cores,
                backend=template.definition.backend,
                at_most=None if device == "cpu" else self._devices.count(device),
            ) as trainer:
                with self._changed:
                    if attempt in self._given_up:
                        return None
                    self._trainers[attempt] = trainer
                assert self._folder is not None
                request = fill_in(
                    template,
                    worker=worker,
                    attempt=attempt,
                    shard=str(self._folder / f"train-{worker}"),
                    validation=str(self._folder / f"validation-{worker}"),
                    times=(began_s, began_s),
                )
                answer = trainer.ask(request)
        except Exception as error:
            return failure_of(error, worker=worker, host=_LOOPBACK)
        return answer.failure(worker=worker, host=_LOOPBACK)


def _facts(data: DataSet | None, validation: DataSet | None, workers: int) -> dict[str, Any]:
    """Return JSON-serializable facts: the contents of each data set and examples per worker."""
    sets = {"train": data, "validation": validation}
    plan = None if data is None else plan_repartition([len(data)], workers=workers)
    return {
        **({} if plan is None else {"partitions": plan.to_dict()}),
        "data": {
            name: {
                "rows": len(each),
                "size_bytes": each.size_bytes,
                "columns": {
                    column: {"dtype": str(dtype), "shape": list(shape)}
                    for column, (dtype, shape) in each.layout.items()
                },
            }
            for name, each in sets.items()
            if each is not None
        },
    }


def _blocks(dataset: DataSet | None, workers: int) -> Iterator[DataSet | None]:
    """Yield consecutive blocks whose sizes differ by at most one, as on Spark; None if empty."""
    counts = plan_repartition([0 if dataset is None else len(dataset)], workers=workers)
    edges = np.concatenate([[0], np.cumsum(counts.target_counts)]).tolist()
    for start, stop in itertools.pairwise(edges):
        yield dataset.take(slice(start, stop)) if dataset is not None and stop > start else None
