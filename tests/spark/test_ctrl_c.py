import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import sparkwright as sw

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

SCRIPT = """
import json, pathlib, sys, threading, time
import numpy as np
import sparkwright as sw
from sparkwright.data import DataSet
from sparkwright.cluster.jobs import run_job
from tests.spark.helpers import Paced, dense, weights
from tests.waiting import wait_until

marker = sys.argv[1]

def ready_when(condition):
    def look():
        wait_until(condition, 90)
        print("ready", flush=True)
    threading.Thread(target=look, daemon=True).start()

def train(master):
    model = dense()
    before = weights(model)
    network = sw.SparkNetwork(spark, model, master.with_hooks(Paced(0.02)))
    run = network.start(data, epochs=5000, display=False)
    ready_when(lambda: run.status.averagings >= 2)
    try:
        run.wait()
    except sw.errors.RunInterrupted as error:
        after = weights(model)
        print(json.dumps({
            "message": str(error),
            "state": run.status.state,
            "averagings": run.status.averagings,
            "steps": int(run.history["step"].max()),
            "iterations": int(model.optimizer.iterations),
            "finite": bool(np.isfinite(after).all()),
            "changed": bool((before != after).any()),
        }), flush=True)

features = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
data = DataSet(features, np.arange(120, dtype=np.int32) % 3)

def slow(rows):
    time.sleep(600)
    return rows

def of_the_user(rows):
    while not pathlib.Path(marker).exists():
        time.sleep(0.05)
    return rows

spark = sw.start_spark(workers=3)
context = spark.sparkContext
found = []
other = threading.Thread(
    target=lambda: found.append(context.parallelize([7], 1).mapPartitions(of_the_user).collect())
)
other.start()
options = {"batch_size_per_worker": 10, "workers": 2}
train(sw.ParameterAveragingTrainingMaster(averaging_frequency=2, **options))
train(sw.SharedTrainingMaster(**options))
ready_when(lambda: len(context.statusTracker().getActiveJobsIds()) == 2)
try:
    run_job(spark, context.parallelize([1], 1).mapPartitions(slow).count, description="slow")
except sw.errors.RunInterrupted as error:
    wait_until(lambda: len(context.statusTracker().getActiveJobsIds()) == 1, 30)
    print(json.dumps({"message": str(error)}), flush=True)
pathlib.Path(marker).touch()
other.join(60)
print(json.dumps(found), flush=True)
master = sw.ParameterAveragingTrainingMaster(**options).with_hooks(Paced(0.02))
run = sw.SparkNetwork(spark, dense(), master).start(data, epochs=5000, name="last", display=False)
ready_when(lambda: run.status.averagings >= 2)
run.wait()
"""


def test_ctrl_c_in_a_script_keeps_the_average_and_other_jobs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "marker")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    # A script that hangs ends, and the test fails where it waits for its answer.
    limit = threading.Timer(200, process.kill)
    limit.start()
    try:
        runs = [_interrupted(process) for _ in range(2)]
        for told in runs:
            averagings = told["averagings"]
            assert averagings >= 2
            assert (
                f"the model holds the average after averaging {averagings}, in" in told["message"]
            )
            assert (told["state"], told["finite"], told["changed"]) == ("stopped", True, True)
        # What the model holds is the average after so many minibatches.
        assert runs[0]["iterations"] == runs[0]["steps"] > 0
        assert _interrupted(process) == {"message": "interrupted: slow"}
        assert json.loads(_line(process)) == [[7]]
        # What the script does not catch ends it with one sentence.
        _interrupt(process)
        rest, errors = process.communicate()
        assert rest == ""
        (sentence,) = errors.strip().splitlines()
        assert re.match(r"RunInterrupted: run last was interrupted in epoch \d+ of ", sentence)
        assert process.returncode != 0
    finally:
        limit.cancel()
        process.kill()
        process.communicate()


TERMINATED = """
import sys
import numpy as np
import sparkwright as sw
from tests.spark.helpers import Paced, dense
from tests.waiting import wait_until
import threading

spark = sw.start_spark(workers=2)
kind, ways = sw.ParameterAveragingTrainingMaster, {}
if sys.argv[1] == "sharing":
    kind = sw.SharedTrainingMaster
elif sys.argv[1] == "spark":
    ways = {"communication": "spark"}
master = kind(batch_size_per_worker=10, workers=2, **ways)
data = sw.DataSet(np.zeros((120, 4), np.float32), np.arange(120, dtype=np.int32) % 3)
network = sw.SparkNetwork(spark, dense(), master.with_hooks(Paced(0.02)))
run = network.start(data, epochs=5000, name="terminated", display=False)

def look():
    wait_until(lambda: run.status.averagings >= 2, 90)
    print("ready", flush=True)

threading.Thread(target=look, daemon=True).start()
run.wait()
"""


@pytest.mark.parametrize("way", ["averaging", "sharing", "spark"])
def test_sigterm_to_all_processes_keeps_the_model(tmp_path, way):
    """As a job scheduler sends it; Java and the trainers end too."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINATED, way],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "SPARKWRIGHT_RUNS": str(tmp_path / "runs.sqlite")},
        start_new_session=True,
    )
    limit = threading.Timer(200, process.kill)
    limit.start()
    try:
        assert _line(process) == "ready"
        os.killpg(process.pid, signal.SIGTERM)
        _, errors = process.communicate()
    finally:
        limit.cancel()
    assert process.returncode == 128 + signal.SIGTERM
    (model,) = tmp_path.glob("terminated-*.keras")
    assert f"It is in {model}" in errors
    assert sw.load_model(str(model)).optimizer.iterations.numpy() > 0


def _interrupt(process):
    """Send Ctrl-C when the script is ready for it."""
    assert _line(process) == "ready"
    os.killpg(process.pid, signal.SIGINT)


def _interrupted(process):
    """What the script tells after a Ctrl-C."""
    _interrupt(process)
    return json.loads(_line(process))


def _line(process):
    return process.stdout.readline().strip()
