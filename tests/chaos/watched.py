"""A run that is watched: what it claims, when it reaches a moment, how it ends."""

import os
import threading
import time

import numpy as np
from tests.chaos import counting
from tests.chaos.verdicts import Evidence

# Averagings: who has been at so many and is at so few has begun anew.
_MANY, _FEW = 8, 3


class Watched:
    """A run, and the most that it has ever claimed."""

    def __init__(self, experiment, run, *, epochs, workers):
        self.experiment, self.run = experiment, run
        self.epochs, self.workers = epochs, workers
        self.began_s = time.monotonic()
        self.most_averagings = self.losses = 0
        self.restarted = False
        self.stop_asked, self._stopped_s = False, 0.0
        self._saw_validation = threading.Event()
        run.add_listener(self._heard)
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _heard(self, event):
        if type(event).__name__ == "WorkerLost":
            self.losses += 1
        elif type(event).__name__ == "Validated":
            self._saw_validation.set()

    def _watch(self):
        while not self.run.finished:
            now = self._averagings()
            self.most_averagings = max(self.most_averagings, now)
            # 0 may stand there for a moment while the run goes back to a copy.
            self.restarted |= self.most_averagings >= _MANY and 0 < now <= _FEW
            time.sleep(0.01)

    def _averagings(self):
        """Averagings; with sharing, rounds of minibatches that all workers could have done."""
        status = self.run.status
        if self.experiment.master != "sharing":
            return status.averagings
        return sum(each.steps for each in status.workers) // self.workers

    def stop(self):
        """Ask the run to end."""
        self.stop_asked, self._stopped_s = True, self.seconds
        self.run.stop()

    @property
    def seconds(self):
        """Since the start."""
        return time.monotonic() - self.began_s

    def until(self, condition, limit_s=60.0):
        """Whether `condition(run.status)` comes true while the run goes on."""
        deadline_s = time.monotonic() + limit_s
        while not self.run.finished and time.monotonic() < deadline_s:
            if condition(self.run.status):
                return True
            time.sleep(0.005)
        return False

    def reaches(self, moment, folder):
        """Wait for a moment; False if the run is over before."""
        last = self.epochs - 1
        # Where workers join, nobody knows how many rounds an epoch will have.
        by_steps = self.experiment.master == "sharing" or self.experiment.joining > 0

        def is_last_round(status):
            if by_steps:
                total = self.epochs * counting.EXAMPLES // counting.BATCH
                return sum(each.steps for each in status.workers) >= total - 2 * self.workers
            return status.averagings >= status.rounds * self.epochs - 1 > 0

        def is_epoch_end(status):
            if by_steps:
                return (
                    sum(w.steps for w in status.workers)
                    >= 3 * counting.EXAMPLES // counting.BATCH - 3
                )
            return status.epoch >= min(3, last) and status.round >= status.rounds - 1

        conditions = {
            "start": lambda status: status.state in ("starting", "training"),
            "first second": lambda status: any(each.steps for each in status.workers),
            "validation": lambda status: (
                self._saw_validation.is_set()
                or any(each.state == "validating" for each in status.workers)
            ),
            "checkpoint": lambda _: (
                (folder / "checkpoints").exists() and bool(os.listdir(folder / "checkpoints"))
            ),
            "epoch end": is_epoch_end,
            "final delivery": is_last_round,
            "stop": lambda status: sum(each.steps for each in status.workers) >= 60,
        }
        return self.until(conditions[moment])

    def evidence(self, *, struck, limit_s):
        """Wait for the end, and collect what is to be judged."""
        run, error = self.run, ""
        try:
            run.wait(max(1.0, limit_s - self.seconds))
        except Exception as problem:
            notes = getattr(problem, "__notes__", [])
            error = " ".join([f"{type(problem).__name__}: {problem}", *notes])
        status, history = run.status, run.history
        numbers = history.groupby(["epoch", "round", "worker"]).size()
        rounds = [
            tuple(int(n) for n in group) for _, group in numbers.groupby(level=["epoch", "round"])
        ]
        return Evidence(
            experiment=self.experiment,
            state=status.state if run.finished else "hung",
            error=error,
            struck=struck,
            stop_asked=self.stop_asked,
            losses=self.losses,
            most_averagings=self.most_averagings,
            averagings=self._averagings(),
            restarted=self.restarted,
            warnings=run.warnings,
            rounds=rounds,
            untold=int(np.isnan(history["loss"]).sum()),
            examples=int(history["examples"].sum()),
            epochs=self.epochs,
            counts=counting.counts(run.model),
            workers=self.workers,
            seconds=self.seconds,
            text=self._text(status),
        )

    def _text(self, status):
        workers = ", ".join(f"{w.state} {w.steps} ({w.restarts})" for w in status.workers)
        stopped = f"stop after {self._stopped_s:.1f} s; " if self.stop_asked else ""
        return (
            f"{stopped}{status.message}; epoch {status.epoch} of {status.epochs}, "
            f"{status.averagings} averagings, {self.losses} losses; "
            f"minibatches (restarts) of workers: {workers}"
        )
