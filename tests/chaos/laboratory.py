"""Runs experiments on a session of Spark and says what came of them."""

import contextlib
import faulthandler
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from tests.chaos import counting, faults
from tests.chaos.experiments import PEER_TIMEOUT_S, Experiment
from tests.chaos.verdicts import Evidence, Verdict, judge

import sparkwright as sw

LIMIT_S = 90.0
_READY_S = 90.0
# Averagings: who has been at so many and is at so few has begun anew.
_MANY, _FEW = 8, 3


class Laboratory:
    """A session, its data, and what must be mended after an experiment.

    Attributes:
        spark: the session; another one after `restart`.
        folder: of the experiment at work.
        hosts: of the executors; None: they are on this one.
        host_names: of the executors.
    """

    def __init__(
        self,
        start: Callable[[], Any],
        root: Path,
        *,
        executors: int,
        hosts: Any = None,
        host_names: tuple[str, ...] = (),
        disk: Callable[[str], Path] | None = None,
    ) -> None:
        self._start, self._root, self._executors = start, root, executors
        self.hosts, self.host_names = hosts, host_names
        self._disk = disk
        self.spark: Any = start()
        self.later = faults.Later()
        self.folder = root
        self._numbers = 0

    def close(self) -> None:
        self.later.now()
        self.spark.stop()

    def restart(self) -> None:
        """A new session: a run of the old one hangs."""
        self.spark.stop()
        self.spark = self._start()

    def ready(self) -> None:
        """Mend everything, and wait until all executors are there again."""
        self.later.now()
        if self.hosts is not None:
            self.hosts.links()
        deadline_s = time.monotonic() + _READY_S
        tracker = self.spark.sparkContext._jsc.sc().statusTracker()
        while len(tracker.getExecutorInfos()) - 1 != self._executors:
            if time.monotonic() > deadline_s:
                self.restart()
                return
            time.sleep(0.1)
        self._numbers += 1
        self.folder = self._root / str(self._numbers)
        self.folder.mkdir(parents=True)

    def disk(self, host: str) -> Path:
        """The folder in which the executors of a host keep their files."""
        assert self._disk is not None
        return self._disk(host)

    def fill_disk(self, host: str) -> Callable[[], None]:
        """Leave no byte on a host's disk; returns what gives the room back."""
        filler = self.disk(host) / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        return lambda: filler.unlink(missing_ok=True)

    # -- runs -----------------------------------------------------------------------------------

    def master(self, experiment: Experiment, *hooks: Any, **options: Any) -> Any:
        """The training master of an experiment."""
        chosen: dict[str, Any] = {
            "workers": counting.WORKERS,
            "batch_size_per_worker": counting.BATCH,
            "seed": 1,
            "mesh": sw.MeshConfig(
                peer_timeout_s=PEER_TIMEOUT_S,
                connect_timeout_s=10,
                replacement_grace_s=experiment.grace_s,
                replacement_timeout_s=60,
                rendezvous_timeout_s=60,
            ),
        }
        if experiment.moment == "checkpoint" or experiment.victim == "driver":
            every = 4 if experiment.master == "averaging" else 8
            if experiment.master != "spark":
                url = str(self.folder / "checkpoints")
                chosen["checkpoint"] = sw.Checkpointing(url, every_rounds=every)
        if experiment.master == "sharing":
            # Each minibatch changes a parameter by half a threshold or not at all.
            chosen |= {
                "threshold": sw.FixedThreshold(2 / counting.BATCH),
                "residual_clipping": None,
                "minibatches_per_message": 1,
            }
            chosen |= options
            master: Any = sw.SharedTrainingMaster(**chosen)
        else:
            chosen["averaging_frequency"] = 2
            if experiment.master == "spark":
                chosen |= {"communication": "spark", "averaging_frequency": 8}
            chosen |= options
            master = sw.ParameterAveragingTrainingMaster(**chosen)
        clock = counting.ClockAhead(str(self.folder / "clock-ahead"))
        return master.with_hooks(clock, *hooks)

    def start(
        self,
        experiment: Experiment,
        *hooks: Any,
        model: Any = None,
        pace_s: float = 0.02,
        epochs: int = counting.EPOCHS,
        resume: str | None = None,
        **options: Any,
    ) -> "Watched":
        """Begin a run that counts."""
        model = counting.counter() if model is None else model
        network = sw.SparkNetwork(
            self.spark, model, self.master(experiment, counting.Paced(pace_s), *hooks, **options)
        )
        validation = counting.examples() if experiment.moment == "validation" else None
        run = network.start(
            counting.data(self.spark), epochs=epochs, validation=validation, resume=resume
        )
        return Watched(
            experiment, run, epochs=epochs, workers=options.get("workers", counting.WORKERS)
        )

    def perform(self, experiment: Experiment) -> Verdict:
        """Run an experiment to its end and judge it."""
        self.ready()
        if experiment.victim == "driver" and experiment.fault == "kill":
            return self._perform_with_a_driver_of_its_own(experiment)
        watched = self.start(experiment)
        run = watched.run
        struck = False
        if watched.reaches(experiment.moment, self.folder):
            if experiment.moment == "stop":
                watched.stop()
            time.sleep(experiment.jitter_s)
            struck = not run.finished and faults.strike(experiment, self, run)
        return self.verdict(watched, struck=struck)

    def verdict(
        self, watched: "Watched", *, struck: bool = True, limit_s: float = LIMIT_S
    ) -> Verdict:
        """Wait for the end, and judge it."""
        evidence = watched.evidence(struck=struck, limit_s=limit_s)
        self.later.now()
        if evidence.state == "hung":
            faulthandler.dump_traceback(all_threads=True)
            self._end(watched.run)
        return judge(evidence)

    def _end(self, run: Any) -> None:
        run.stop()
        deadline_s = time.monotonic() + 10
        while not run.finished and time.monotonic() < deadline_s:
            time.sleep(0.1)
        if not run.finished:
            self.spark.sparkContext.cancelAllJobs()
            self.restart()

    def _perform_with_a_driver_of_its_own(self, experiment: Experiment) -> Verdict:
        """Kill a driver that writes checkpoints; resume its run in this one."""
        began_s = time.monotonic()
        url = self.folder / "checkpoints"
        self.kill_a_driver(experiment, url)
        watched = self.start(experiment, resume=str(url))
        watched.began_s = began_s
        return self.verdict(watched)

    def kill_a_driver(self, experiment: Experiment, url: Path) -> None:
        """Start a driver, wait for checkpoints, kill it; its executors must end by themselves."""
        root = Path(__file__).parents[2]
        script = Path(__file__).with_name("driver.py")
        environment = {
            **os.environ,
            "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        driver = subprocess.Popen(
            [sys.executable, script, experiment.master, url], env=environment, cwd=root
        )
        try:
            deadline_s = time.monotonic() + LIMIT_S
            while len(list(url.glob("*.swc"))) < 2:
                assert driver.poll() is None, "the driver ended by itself"
                assert time.monotonic() < deadline_s, "the driver wrote no checkpoints"
                time.sleep(0.002)
            time.sleep(experiment.jitter_s)
            family = psutil.Process(driver.pid).children(recursive=True)
            driver.kill()
            _, alive = psutil.wait_procs(family, timeout=20)
            assert not alive, [" ".join(process.cmdline()) for process in alive]
        finally:
            driver.kill()
            driver.wait(10)


class Watched:
    """A run, and the most that it has ever claimed."""

    def __init__(self, experiment: Experiment, run: Any, *, epochs: int, workers: int) -> None:
        self.experiment, self.run = experiment, run
        self.epochs, self.workers = epochs, workers
        self.began_s = time.monotonic()
        self.most_averagings = self.losses = 0
        self.restarted = False
        self.stop_asked = False
        self._saw_validation = threading.Event()
        run.add_listener(self._heard)
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _heard(self, event: Any) -> None:
        if type(event).__name__ == "WorkerLost":
            self.losses += 1
        elif type(event).__name__ == "Validated":
            self._saw_validation.set()

    def _watch(self) -> None:
        while not self.run.finished:
            now = self._averagings()
            self.most_averagings = max(self.most_averagings, now)
            # 0 may stand there for a moment while the run goes back to a copy.
            self.restarted |= self.most_averagings >= _MANY and 0 < now <= _FEW
            time.sleep(0.01)

    def _averagings(self) -> int:
        """Averagings; with sharing, rounds of minibatches that all workers could have done."""
        status = self.run.status
        if self.experiment.master != "sharing":
            return status.averagings
        return sum(each.steps for each in status.workers) // self.workers

    def stop(self) -> None:
        """Ask the run to end."""
        self.stop_asked = True
        self.run.stop()

    def until(self, condition: Callable[[Any], object], limit_s: float = 60.0) -> bool:
        """Whether `condition(run.status)` comes true while the run goes on."""
        deadline_s = time.monotonic() + limit_s
        while not self.run.finished and time.monotonic() < deadline_s:
            if condition(self.run.status):
                return True
            time.sleep(0.005)
        return False

    def reaches(self, moment: str, folder: Path) -> bool:
        """Wait for a moment; False if the run is over before."""
        last = self.epochs - 1
        sharing = self.experiment.master == "sharing"

        def is_last_round(status: Any) -> bool:
            if sharing:
                total = self.epochs * counting.EXAMPLES // counting.BATCH
                return sum(each.steps for each in status.workers) >= total - 2 * self.workers
            return status.averagings >= status.rounds * self.epochs - 1 > 0

        def is_epoch_end(status: Any) -> bool:
            if sharing:
                return (
                    sum(w.steps for w in status.workers)
                    >= 3 * counting.EXAMPLES // counting.BATCH - 3
                )
            return status.epoch >= min(3, last) and status.round >= status.rounds - 1

        conditions: dict[str, Callable[[Any], object]] = {
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

    def evidence(self, *, struck: bool, limit_s: float, text: str = "") -> Evidence:
        """Wait for the end, and collect what is to be judged."""
        run, error = self.run, ""
        try:
            run.wait(max(1.0, limit_s - (time.monotonic() - self.began_s)))
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
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
            seconds=time.monotonic() - self.began_s,
            text=text,
        )
