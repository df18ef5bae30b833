"""Strikes processes, hosts and the driver itself, and mends what can be mended."""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

Undo = Callable[[], None]

TRAINER = "sparkwright.workers._trainer"


# -- which process is whose ------------------------------------------------------------------


def executors(spark):
    """The executors' JVMs of a session, wherever on this machine they run."""
    driver = f":{spark.sparkContext.getConf().get('spark.driver.port')}"
    found = []
    for process in psutil.process_iter():
        line = line_of(process)
        if "CoarseGrainedExecutorBackend" in line and f"{driver} " in line + " ":
            found.append(process)
    return sorted(found, key=lambda process: process.pid)


def executor_with_shuffle(spark):
    """The executor that holds the newest shuffle's output, of one partition."""
    newest, found = -1, None
    for executor in executors(spark):
        for folder in executor.environ()["SPARK_EXECUTOR_DIRS"].split(os.pathsep):
            for file in Path(folder).glob("blockmgr-*/*/shuffle_*_*_0.data"):
                number = int(file.name.split("_")[1])
                if number > newest:
                    newest, found = number, executor
    assert found is not None
    return found


def wait_until_tasks_settle(spark, seconds=5.0):
    """Wait until Spark has begun and ended no task for a while: it retries a lost stage's late."""
    before, since_s = None, time.monotonic()
    while time.monotonic() - since_s < seconds:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        counts = [
            (s.stageId, s.numActiveTasks, s.numCompletedTasks, s.numFailedTasks)
            for s in stages
            if s
        ]
        if counts != before:
            before, since_s = counts, time.monotonic()
        time.sleep(0.2)


def kill_trainers(run, workers):
    """Kill the processes in which these workers train."""
    for worker in workers:
        trainer = trainer_of(run, worker)
        trainer.kill()


def trainer_of(run, worker):
    """The process in which a worker trains, if it is known by now."""
    pids = {each.worker: each.pid for each in run.status.workers}
    with contextlib.suppress(psutil.Error):
        if pids.get(worker):
            found = psutil.Process(pids[worker])
            return found if TRAINER in line_of(found) else None
    return None


def trainers(spark):
    """All trainer processes of a session."""
    return [p for p in _descendants(spark) if TRAINER in line_of(p)]


def python_worker_of(spark, trainer):
    """The Python worker of the task that holds a trainer: it has the trainer's lock open."""
    for process in _descendants(spark):
        if "pyspark.daemon" not in line_of(process):
            continue
        with contextlib.suppress(psutil.Error):
            locks = [Path(f.path) for f in process.open_files() if f.path.endswith(".lock")]
            sockets = {lock.with_suffix(".sock") for lock in locks}
            if any(str(path) in line_of(trainer) for path in sockets):
                return process
    return None


def executor_of(trainer):
    """The executor that a trainer belongs to."""
    with contextlib.suppress(psutil.Error):
        # It outlives the Python worker that started it, but not its owner, Spark's daemon.
        command = trainer.cmdline()
        # What follows the module: its socket, its owner.
        owner = psutil.Process(int(command[command.index(TRAINER) + 2]))
        for parent in owner.parents():
            if "CoarseGrainedExecutorBackend" in line_of(parent):
                return parent
    return None


def _descendants(spark):
    found = []
    for executor in executors(spark):
        with contextlib.suppress(psutil.Error):
            found += executor.children(recursive=True)
    return found


def line_of(process):
    """The command line of a process; empty once it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it has just ended


# -- faults ----------------------------------------------------------------------------------


def strike(experiment, laboratory, run):
    """Let the fault happen; returns whether its victim was still there."""
    if experiment.victim == "driver":
        stall_this_process(experiment.fault, experiment.pause_s)
        return True
    if experiment.victim == "clock of a host":
        switch = laboratory.folder / "clock-ahead"
        switch.touch()
        laboratory.later(experiment.pause_s, lambda: switch.unlink(missing_ok=True))
        return True
    if experiment.victim in ("callback", "example"):
        laboratory.switch.touch()
        return True
    if experiment.victim == "session":
        laboratory.end_session(kill=experiment.fault == "kill the JVM")
        return True
    if experiment.victim == "connect server":
        laboratory.strike_server()
        return True
    if experiment.victim == "second run":
        laboratory.start_second(experiment)
        return True
    if experiment.victim == "descriptors":
        return _strike_without_descriptors(experiment, run)
    if experiment.victim in ("network", "disk"):
        return _strike_host(experiment, laboratory)
    struck = _strike_process(experiment, laboratory, run)
    if experiment.second is not None:
        worker = (experiment.worker + 1) % len(run.status.workers)
        other = replace(experiment, victim=experiment.second, fault="kill", worker=worker)
        struck |= _strike_process(other, laboratory, run)
    return struck


def _strike_process(experiment, laboratory, run):
    deadline_s = time.monotonic() + 10
    while not run.finished and time.monotonic() < deadline_s:
        if (victim := _victim(experiment, laboratory.spark, run)) is not None:
            with contextlib.suppress(psutil.Error):
                if experiment.fault == "kill":
                    victim.kill()
                else:
                    victim.suspend()
                    laboratory.later(experiment.pause_s, lambda: _resume(victim))
                return True
        time.sleep(0.01)
    return False


def _victim(experiment, spark, run):
    trainer = trainer_of(run, experiment.worker)
    if trainer is None:
        # At the start nobody knows yet which process will be whose.
        if experiment.moment != "start":
            return None
        known = executors(spark) if experiment.victim == "executor" else trainers(spark)
        if not known or experiment.victim == "executor":
            return known[experiment.worker % len(known)] if known else None
        trainer = known[experiment.worker % len(known)]
    if experiment.victim == "trainer":
        return trainer
    if experiment.victim == "executor":
        return executor_of(trainer)
    return python_worker_of(spark, trainer)


def _resume(process):
    with contextlib.suppress(psutil.Error):
        process.resume()


def _strike_host(experiment, laboratory):
    hosts, name = laboratory.hosts, laboratory.host_names[experiment.worker]
    if experiment.victim == "disk":
        places = {"fill temporary files": (name, "tmp"), "fill the driver's": ("driver", "tmp")}
        place = places.get(experiment.fault, (name, "local"))
        laboratory.later(experiment.pause_s, laboratory.fill_disk(*place))
        # What is on a full disk stays; only a replacement needs room.
        for trainer in trainers(laboratory.spark):
            with contextlib.suppress(psutil.Error):
                if f"/{name}-files/" in trainer.environ()["TMPDIR"]:
                    trainer.kill()
        return True
    if experiment.fault == "cut":
        hosts.cut_off(name)
    elif experiment.fault == "cut from another":
        other = laboratory.host_names[(experiment.worker + 1) % len(laboratory.host_names)]
        hosts.link(name, other, cut=True)
    elif experiment.fault == "cut one way":
        hosts.link(name, "outside", both_ways=False, cut=True)
    else:
        hosts.links(delay_s=0.03, loss=0.02)
    laboratory.later(experiment.pause_s, hosts.links)
    return True


def stall_this_process(fault, seconds):
    """Let no thread of this process run for a while.

    By SIGSTOP and SIGCONT, as a virtual machine that is suspended, or as C code that keeps the GIL.
    """
    if fault == "pause":
        script = 'kill -STOP "$1"; sleep "$2"; kill -CONT "$1"'
        subprocess.run(["sh", "-c", script, "sh", str(os.getpid()), f"{seconds:g}"], check=True)
    else:
        ctypes.PyDLL(None).sleep(round(seconds))


def _strike_without_descriptors(experiment, run):
    """Kill a trainer while this process, the driver, can open nothing for a while."""
    trainer = trainer_of(run, experiment.worker)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        if trainer is not None:
            os.kill(trainer.pid, signal.SIGKILL)
        time.sleep(experiment.pause_s)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in taken:
            os.close(number)
    return trainer is not None


class Later:
    """What is to be undone after a while, or now."""

    def __init__(self):
        self._undo = []

    def __call__(self, seconds, undo):
        timer = threading.Timer(seconds, undo)
        timer.daemon = True
        timer.start()
        self._undo.append((timer, undo))

    def now(self):
        """Undo what has not been undone yet; doing it twice does no harm."""
        for timer, undo in self._undo:
            timer.cancel()
            undo()
        self._undo.clear()
