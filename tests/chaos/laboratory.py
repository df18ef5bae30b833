"""Runs experiments on a session of Spark and says what came of them."""

import contextlib
import faulthandler
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
from tests.chaos import counting, faults
from tests.chaos.experiments import PEER_TIMEOUT_S
from tests.chaos.verdicts import Verdict, judge
from tests.chaos.watched import Watched
from tests.support.leftovers import shards_that_stay

import sparkwright as sw

LIMIT_S = 90.0
_READY_S = 90.0


def started_driver(script, *arguments):
    """A process of a script of this folder, which imports the tests."""
    root = Path(__file__).parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen([sys.executable, script, *arguments], env=environment, cwd=root)


class Laboratory:
    """A session, its data, and what must be mended after an experiment.

    Attributes:
        spark: the session; another one after `restart`.
        folder: of the experiment at work.
        hosts: of the executors, with `host_names`; None: they are on this one.
    """

    def __init__(self, start, root, *, executors, hosts=None, host_names=(), disks=None):
        self._start, self._root, self._executors = start, root, executors
        self.hosts, self.host_names = hosts, host_names
        self._disks = disks
        self.spark = start({})
        self.later = faults.Later()
        self.folder = root
        self._numbers = 0
        self._run = None
        self._second = None
        self._orphans = []

    def close(self):
        self.later.now()
        self.spark.stop()

    @property
    def switch(self):
        """The file whose existence disturbs the run, see `counting`."""
        return self.folder / "disturb"

    def end_session(self, *, kill):
        """Stop the session, or kill its JVM."""
        self._orphans = faults.trainers(self.spark)
        if kill:
            self.spark.sparkContext._gateway.proc.kill()
        else:
            self.spark.stop()

    def start_second(self, experiment):
        """Start another run, which waits for the slots that it needs."""
        master = self.master(experiment, workers=2, max_workers=None, checkpoint=None)
        network = sw.SparkNetwork(self.spark, counting.counter(), master)
        self._second = network.start(counting.data(self.spark), epochs=2, display=False)

    def restart(self, **settings):
        """A new session, with settings of Spark that have underscores for dots."""
        with contextlib.suppress(Exception):  # its JVM may have been killed
            self.spark.stop()
        self.spark = self._start({k.replace("_", "."): v for k, v in settings.items()})

    def ready(self):
        """Mend everything, and wait until all executors are there again."""
        self.later.now()
        if self._run is not None and not self._run.finished:  # a test that failed has left it
            self._end(self._run)
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

    def fill_disk(self, host, kind):
        """Leave no byte on one of a host's disks; returns what gives the room back."""
        filler = self._disks[host, kind] / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        return lambda: filler.unlink(missing_ok=True)

    # -- runs -----------------------------------------------------------------------------------

    def master(self, experiment, *hooks, stall_timeout_s=60, **options):
        """The training master of an experiment."""
        chosen = {
            "workers": counting.WORKERS,
            "batch_size_per_worker": counting.BATCH,
            "seed": 1,
            "mesh": sw.MeshConfig(
                peer_timeout_s=PEER_TIMEOUT_S,
                connect_timeout_s=10,
                replacement_grace_s=experiment.grace_s,
                replacement_timeout_s=60,
                stall_timeout_s=stall_timeout_s,
                rendezvous_timeout_s=60,
            ),
        }
        if experiment.moment == "checkpoint" or experiment.victim == "driver":
            every = {"averaging": 4, "sharing": 8, "spark": 1}[experiment.master]
            url = str(self.folder / "checkpoints")
            chosen["checkpoint"] = sw.Checkpointing(url, every_rounds=every)
        if experiment.joining:
            required = counting.WORKERS - experiment.joining
            chosen |= {"workers": required, "max_workers": counting.WORKERS}
        if experiment.by_driver:
            chosen["communication"] = "driver"
        if experiment.master == "sharing":
            # Each minibatch changes a parameter by a little more than the threshold, which rounding
            # may take away, or not at all.
            chosen |= {
                "threshold": sw.FixedThreshold(threshold=counting.SENT / counting.BATCH),
                "residual_clipping": None,
                "minibatches_per_message": 1,
            }
            chosen |= options
            master = sw.SharedTrainingMaster(**chosen)
        else:
            chosen["averaging_frequency"] = 2
            if experiment.delay:
                chosen |= {"averaging_delay": experiment.delay, "updater": "local"}
            if experiment.master == "spark":
                chosen |= {"communication": "spark", "averaging_frequency": 8}
            chosen |= options
            master = sw.ParameterAveragingTrainingMaster(**chosen)
        clock = counting.ClockAhead(str(self.folder / "clock-ahead"))
        return master.with_hooks(clock, *hooks)

    def data(self):
        """What runs train on."""
        return counting.data(self.spark)

    def start(
        self,
        experiment,
        *hooks,
        model=None,
        pace_s=0.02,
        epochs=counting.EPOCHS,
        resume=None,
        **options,
    ):
        """Begin a run that counts."""
        model = counting.counter() if model is None else model
        if experiment.victim == "example":
            hooks = (*hooks, counting.KillAtExample(str(self.switch)))
        network = sw.SparkNetwork(
            self.spark, model, self.master(experiment, counting.Paced(pace_s), *hooks, **options)
        )
        validation = counting.examples() if experiment.moment == "validation" else None
        given = {"epochs": epochs, "validation": validation, "resume": resume}
        runs = []
        if experiment.victim == "callback":
            disturbing = (self.switch, experiment.fault, network, runs)
            given["callbacks"] = [counting.disturbing_callback(*disturbing)]
        run = network.start(self.data(), **given)
        runs.append(run)
        self._run = run
        return Watched(
            experiment, run, epochs=epochs, workers=options.get("workers", counting.WORKERS)
        )

    def perform(self, experiment):
        """Run an experiment to its end and judge it."""
        self.ready()
        if experiment.victim == "driver" and experiment.fault == "kill":
            return self._perform_with_a_driver_of_its_own(experiment)
        if experiment.victim == "connect server":
            from tests.chaos import over_connect  # which makes a laboratory of its own

            return over_connect.perform(experiment, self.folder)
        return self._with_others(self.observed(experiment))

    def observed(self, experiment):
        """Run an experiment with what is there; returns the verdict."""
        watched = self.start(experiment)
        run = watched.run
        struck = False
        if watched.reaches(experiment.moment, self.folder):
            if experiment.moment == "stop":
                watched.stop()
            time.sleep(experiment.jitter_s)
            struck = not run.finished and faults.strike(experiment, self, run)
        return self.verdict(watched, struck=struck)

    def _with_others(self, verdict):
        """Add what is wrong with a second run, and with what a session left."""
        remarks = dict(verdict.remarks)
        second, self._second = self._second, None
        if second is not None:
            try:
                second.wait(LIMIT_S)
            except Exception as error:
                remarks["runs given up"] = f"the second run: {error}"
            if second.finished and second.history["examples"].sum() != 2 * counting.EXAMPLES:
                remarks["lost or doubled examples"] = "the second run lost or doubled examples"
        if verdict.evidence.experiment.victim == "session" and verdict.evidence.struck:
            _, alive = psutil.wait_procs(self._orphans, timeout=20)
            if alive:
                remarks["left behind"] = f"{len(alive)} trainers outlive their session"
            self.restart()
        if left := self._left():
            remarks["left behind"] = f"{len(left)} files, such as {min(left)}"
        return Verdict(evidence=verdict.evidence, remarks=remarks)

    def _left(self):
        """The files of runs that neither their tasks, idle trainers nor next tasks remove."""
        if shards_that_stay(faults.executors(self.spark)):  # one without a trainer: its next task
            count = 8 * self._executors
            numbers = self.spark.sparkContext.parallelize(range(count), count)
            data = sw.data.from_rdd(self.spark, numbers.map(lambda _: counting.examples(1)))
            sw.SparkNetwork(self.spark, counting.counter(1)).score(data)
        return shards_that_stay(faults.executors(self.spark), seconds=0)

    def verdict(self, watched, *, struck=True, limit_s=LIMIT_S):
        """Wait for the end, and judge it."""
        evidence = watched.evidence(struck=struck, limit_s=limit_s)
        self.later.now()
        if evidence.state == "hung":
            faulthandler.dump_traceback(all_threads=True)
            self._end(watched.run)
        return judge(evidence)

    def _end(self, run):
        run.stop()
        deadline_s = time.monotonic() + 10
        while not run.finished and time.monotonic() < deadline_s:
            time.sleep(0.1)
        if not run.finished:
            self.spark.sparkContext.cancelAllJobs()
            self.restart()

    def _perform_with_a_driver_of_its_own(self, experiment):
        """Kill a driver that writes checkpoints; resume its run in this one."""
        began_s = time.monotonic()
        url = self.folder / "checkpoints"
        self.kill_a_driver(experiment, url)
        # As the driver's, which has no delay.
        watched = self.start(replace(experiment, delay=0), resume=str(url))
        watched.began_s = began_s
        return self.verdict(watched)

    def kill_a_driver(self, experiment, url):
        """Start a driver, wait for checkpoints, kill it; its executors must end by themselves."""
        script = Path(__file__).with_name("driver.py")
        driver = started_driver(script, experiment.master, str(experiment.joining), url)
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
