"""Experiments with a server of Spark Connect.

PySpark has one kind of session in a process, so the run has a driver of its own:

    python over_connect.py EXPERIMENT URL FOLDER
"""

import json
import os
import pickle
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
from tests.chaos import counting
from tests.chaos.experiments import Experiment
from tests.chaos.faults import line_of
from tests.chaos.laboratory import LIMIT_S, Laboratory, started_driver
from tests.support.connect_server import ConnectServer
from tests.support.leftovers import shards_that_stay
from tests.waiting import wait_until

import sparkwright as sw

# How the processes ask one another: the driver makes the first file, then the server's owner moves
# it.
_ASKED, _STRUCK = "strike", "struck"
_VERDICT = "verdict"


def perform(experiment, folder):
    """Run an experiment on a server of its own; returns the verdict."""
    with ConnectServer(executors=counting.WORKERS + 1) as server:
        description = json.dumps(asdict(experiment))
        driver = started_driver(__file__, description, server.url, folder)
        try:
            asked = folder / _ASKED
            wait_until(lambda: asked.exists() or driver.poll() is not None, 2 * LIMIT_S)
            executors = _executors(server.process)
            if asked.exists():
                _strike(server, experiment)
                asked.rename(folder / _STRUCK)
            driver.wait(2 * LIMIT_S)
        finally:
            driver.kill()
            driver.wait(10)
        verdict = pickle.loads((folder / _VERDICT).read_bytes())
        remarks = dict(verdict.remarks)
        if experiment.hopeless and verdict.evidence.struck:
            _, left = psutil.wait_procs(executors, timeout=20)
        else:
            left = sorted(shards_that_stay(executors))
        if left:
            remarks["left behind"] = f"{len(left)}, such as {left[0]}"
        return replace(verdict, remarks=remarks)


def _strike(server, experiment):
    if experiment.fault == "restart":
        server.restart()
    elif experiment.fault == "kill":
        server.process.kill()
    else:
        server.process.suspend()
        time.sleep(experiment.pause_s)
        server.process.resume()


def _executors(process):
    children = process.children(recursive=True)
    return [each for each in children if "CoarseGrained" in line_of(each)]


class _Remote(Laboratory):
    """In the driver, for one experiment."""

    def data(self):
        return counting.examples()

    def strike_server(self):
        (self.folder / _ASKED).touch()
        wait_until((self.folder / _STRUCK).exists, LIMIT_S)


def main(description, url, folder):
    from pyspark.sql import SparkSession

    sw.spark.send_by_value(counting)
    spark = SparkSession.builder.remote(url).create()
    laboratory = _Remote(lambda _: spark, Path(folder), executors=counting.WORKERS + 1)
    verdict = laboratory.observed(Experiment(**json.loads(description)))
    (Path(folder) / _VERDICT).write_bytes(pickle.dumps(verdict))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)  # PySpark would wait for the server


if __name__ == "__main__":
    main(*sys.argv[1:])
