"""A test double of TrainingRun, for the panel's unit tests and browser-protocol tests only.

It trains nothing: a test (or a thread, after `begin`) says what the workers report. That the panel
works with a real run is shown by the notebook tests.
"""

import dataclasses
import functools
import math
import random
import threading
import time

import numpy as np

from sparkwright.runs import RunStatus, ValidationPoint, WorkerStatus

COLUMNS = {
    "worker": np.int32,
    "epoch": np.int32,
    "round": np.int32,
    "step": np.int64,
    "loss": np.float64,
    "examples": np.int32,
    "time_s": np.float64,
    "examples_per_s": np.float64,
    "learning_rate": np.float64,
    "update_ratio": np.float64,
    "accuracy": np.float64,
}
SHARING_COLUMNS = (
    *("threshold", "sparsity", "message_bytes", "staleness"),
    *("residual_p50", "residual_p99", "residual_max"),
)


FakeValidation = ValidationPoint
FakeWorker = functools.partial(
    WorkerStatus,
    state="training",
    host="127.0.0.1",
    rows=600,
    last_heard_s=0.1,
    device="CPU",
    pid=4242,
)
FakeStatus = functools.partial(
    RunStatus,
    state="training",
    message="Training on 2 workers.",
    epoch=1,
    epochs=5,
    rounds=38,
    examples_per_s=6123.0,
    elapsed_s=12.0,
    remaining_s=34.0,
)


class FakeLog:
    def __init__(self, *, sharing=False):
        self._columns = COLUMNS | dict.fromkeys(SHARING_COLUMNS if sharing else (), np.float64)
        self._rows = []
        self._lock = threading.Lock()

    def __len__(self):
        return len(self._rows)

    def append(self, *rows):
        with self._lock:
            self._rows.extend(rows)

    def clear(self):
        with self._lock:
            self._rows.clear()

    def rows(self, start=0, stop=None):
        with self._lock:
            rows = self._rows[start:stop]
        return {
            name: np.array([row.get(name, np.nan) for row in rows], dtype)
            for name, dtype in self._columns.items()
        }


class FakeRun:
    id = "fake-1"
    seconds = 12.0
    start_seconds = 0.8

    def __init__(self, *, workers=2, title="LeNet on handwritten digits", sharing=False):
        self.title = title
        self.configuration = {
            "model": "lenet",
            "parameters": 431_080,
            "master": {"name": "SharedTrainingMaster", "batch_size_per_worker": 32}
            if sharing
            else {"name": "ParameterAveragingTrainingMaster", "averaging_frequency": 5},
            "workers": workers,
            "partitions": [719, 718],
            "seed": 7,
        }
        self.sharing = sharing
        self.log = FakeLog(sharing=sharing)
        self.status = FakeStatus(workers=tuple(FakeWorker(worker=k) for k in range(workers)))
        self.lost = ()
        self.stopped = threading.Event()
        self.stop_calls = 0

    @property
    def finished(self):
        return self.status.state in ("done", "stopped", "failed")

    def set(self, **changes):
        self.status = dataclasses.replace(self.status, **changes)

    def stop(self):
        self.stop_calls += 1
        self.stopped.set()
        self.set(state="stopping", message="Stopping after this round.")

    def add_listener(self, listener):
        return lambda: None

    def report(self, worker, step, loss, *, epoch=1, round=None, examples=32, **more):
        self.log.append(
            {
                "worker": worker,
                "epoch": epoch,
                "round": (step + 4) // 5 if round is None else round,
                "step": step,
                "loss": loss,
                "examples": examples,
                "time_s": 0.1 * step,
                "examples_per_s": 3000.0,
                **more,
            }
        )

    def begin(self, *, epochs=5, rounds=20, steps_per_s=125, ends="done", bad_step=None):
        """Report from a thread: rounds of 5 minibatches, a validation after each epoch."""
        arguments = (epochs, rounds, steps_per_s, ends, bad_step)
        threading.Thread(target=self._train, args=arguments, daemon=True).start()

    def lose(self, worker):
        """From now on this worker is lost."""
        self.lost = (*self.lost, worker)
        self.set(
            workers=tuple(
                dataclasses.replace(w, state="lost") if w.worker in self.lost else w
                for w in self.status.workers
            )
        )

    def _worker(self, worker, step, loss, noise):
        status = FakeWorker(
            worker=worker,
            steps=step,
            loss=loss,
            rows=32 * self.status.rounds if self.sharing else 600,
            state="lost" if worker in self.lost else "training",
        )
        if not self.sharing:
            return status
        message = self._message(worker, step, noise)
        del message["message_bytes"], message["residual_p99"]
        return dataclasses.replace(status, **message, sent_bytes=9_320 * step)

    @staticmethod
    def _message(worker, step, noise):
        sparsity = 0.002 + 0.03 * math.exp(-step / 60) * noise.random()
        return {
            "threshold": 1e-3 * (1 + worker / 10) * (1 + math.sin(step / 40) / 4),
            "sparsity": sparsity,
            "message_bytes": 24 + 4 * sparsity * 431_080,
            "staleness": noise.randrange(4) * worker,
            "residual_p99": 4e-3 if step % 25 == 0 else math.nan,
        }

    @staticmethod
    def _readings(step, epoch, noise):
        if step % 5:
            return {}
        readings = {"learning_rate": 1e-3 * 0.7**epoch, "accuracy": 1 - 0.8 * math.exp(-step / 90)}
        if step % 25 == 0:
            readings["update_ratio"] = 0.03 * math.exp(-step / 60) + 1e-3 * (1 + noise.random())
        return readings

    def _train(self, epochs, rounds, steps_per_s, ends, bad_step):
        noise = random.Random(7)
        began, step = time.monotonic(), 0
        workers = len(self.status.workers)
        self.set(
            state="starting",
            message="Starting workers: 1 of 2.",
            epochs=epochs,
            rounds=5 * rounds if self.sharing else rounds,
        )
        time.sleep(0.5)
        for epoch in range(1, epochs + 1):
            for number in range(1, rounds + 1):
                time.sleep(5 / steps_per_s)
                for _ in range(5):
                    step += 1
                    for worker in range(workers):
                        loss = 2.2 * math.exp(-step / 90) + 0.08 + noise.expovariate(9)
                        is_bad = bad_step is not None and step in (bad_step, bad_step + 1)
                        self.report(
                            worker,
                            step,
                            math.nan if is_bad and worker == 1 else loss,
                            epoch=epoch,
                            round=5 * (number - 1) + (step - 1) % 5 + 1 if self.sharing else number,
                            **(self._message(worker, step, noise) if self.sharing else {}),
                            **self._readings(step, epoch, noise),
                        )
                elapsed_s = time.monotonic() - began
                total = epochs * rounds
                part = ((epoch - 1) * rounds + number) / total
                self.set(
                    state="training",
                    message=f"Training on {workers} workers.",
                    epoch=epoch,
                    round=5 * number if self.sharing else number,
                    elapsed_s=elapsed_s,
                    remaining_s=elapsed_s / part * (1 - part),
                    examples_per_s=32 * workers * step / elapsed_s,
                    workers=tuple(self._worker(k, step, loss, noise) for k in range(workers)),
                )
                if self.stopped.is_set():
                    self.set(
                        state="stopped",
                        message="Stopped by you; the average of the last round is kept.",
                    )
                    return
            point = FakeValidation(
                epoch=epoch,
                step=step,
                loss=2.0 * math.exp(-step / 90) + 0.15,
                metrics={"accuracy": 1 - 0.3 * math.exp(-step / 90)},
            )
            self.set(validation=(*self.status.validation, point))
        done = tuple(dataclasses.replace(worker, state="done") for worker in self.status.workers)
        if ends == "failed":
            self.set(
                state="failed",
                message="Worker 1 failed in layer 'dense_1': shapes do not match.",
                error="Traceback:\n  \x1b[1m<cell>\x1b[0m, line 3\nValueError: <shape>",
            )
            return
        self.set(state="done", message="Trained for all epochs.", remaining_s=0.0, workers=done)
