import contextlib
import json
import os
import re
import signal
import time

import numpy as np
import pytest
from tests.scripts import json_printed_by
from tests.spark.helpers import dense, numbered, weights
from tests.waiting import wait_until

import sparkwright as sw

MASTERS = {
    "averaging": sw.ParameterAveragingTrainingMaster(workers=1, batch_size_per_worker=5),
    "sharing": sw.SharedTrainingMaster(workers=1, batch_size_per_worker=5),
    "spark": sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=5, communication="spark"
    ),
    "driver": sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=5, communication="driver"
    ),
    "sharing-driver": sw.SharedTrainingMaster(
        workers=1, batch_size_per_worker=5, communication="driver"
    ),
}
# Not last, because `start_spark` is to work after a JVM has ended, too.
CASES = [("averaging", "stop"), ("averaging", "kill"), ("sharing", "stop"), ("spark", "stop")]
MORE_CASES = [
    *(("sharing", "kill"), ("spark", "kill"), ("driver", "kill"), ("sharing-driver", "stop")),
    *(("queued", "stop"), ("sweep", "stop")),
]


def run_script(folder):
    """End the session of a run in each way."""
    return json_printed_by("-c", f"from {__name__} import main; main()")


@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(CASES)), ids=["-".join(c) for c in CASES]
)
def test_model_holds_the_latest_average_when_the_session_ends(script_result, number, case):
    found = script_result[number]
    ended = r"`spark\.stop\(\)` was called, or Spark stopped itself"
    if case[1] == "kill":
        ended = r"the driver's JVM \(process \d+\) ended with exit status -9"
    assert found["kind"] == "SparkSessionError"
    assert re.fullmatch(
        rf"a run or job needs its Spark session to the end\. Received: ({ended})\. Start a new "
        r"session \(`sw\.start_spark`\), and create the SparkNetwork in it\. The model holds the "
        r"average after averaging \d+, in epoch \d+\.",
        found["text"],
    ), found["text"]
    assert found["changed"] > 0
    assert found["seconds"] < 30
    assert found["state"] == "failed"


@pytest.mark.thorough
def test_runs_of_each_kind_and_sweeps_end_with_the_session():
    """The other masters and ways, a run that waits for slots, and a sweep."""
    found = json_printed_by("-c", f"from {__name__} import main; main({MORE_CASES})")
    *runs, queued, sweep = found
    assert {each["kind"] for each in found} == {"SparkSessionError"}
    assert all("needs its Spark session to the end. Received: " in each["text"] for each in found)
    assert all("The model holds the " in each["text"] for each in runs)
    assert all(each["changed"] > 0 for each in runs)
    assert all(each["seconds"] < 30 for each in found)
    assert queued["text"].endswith("The model is unchanged: no averaging was completed.")
    assert "has 1 of 4 trials; a sweep of the same study repeats" in sweep["text"]
    assert sweep["trials"] == ["COMPLETE", "FAIL", "WAITING"]


@pytest.mark.thorough
def test_a_driver_without_memory_ends_the_run_and_names_the_setting():
    """Else a JVM answers some calls and not others, and the run waits for ever."""
    (found,) = json_printed_by("-c", f"from {__name__} import main; main([('spark', 'memory')])")
    assert found["kind"] == "SparkSessionError"
    assert "ran out of memory; raise `spark.driver.memory`: `sw.start_spark(" in found["text"]
    assert "The model holds the average after averaging" in found["text"]
    assert found["changed"] > 0
    assert found["seconds"] < 30


@pytest.mark.connect
@pytest.mark.skipif("SPARKWRIGHT_TEST_CONNECT" not in os.environ, reason="`make connect`")
def test_model_holds_the_latest_average_when_the_connect_server_ends_the_session():
    """PySpark's client alone would try again for more than ten minutes, in each call."""
    script = f"from {__name__} import end_connect_sessions; end_connect_sessions()"
    for found in json_printed_by("-c", script):
        assert found["kind"] == "SparkSessionError"
        assert "the Spark Connect server at 127.0.0.1 has ended the session" in found["text"]
        assert "The model holds the average after averaging" in found["text"]
        assert found["changed"] > 0
        assert found["seconds"] < 30
        assert found["state"] == "failed"


def main(cases=CASES):
    print(json.dumps([ended(*case) for case in cases]))


def ended(name, how):
    spark = sw.start_spark(workers=1)
    gateway = spark.sparkContext._gateway

    def end():
        if how == "stop":
            spark.stop()
        elif how == "kill":
            os.kill(gateway.proc.pid, signal.SIGKILL)
        else:
            with contextlib.suppress(Exception):  # the JVM ends
                gateway.new_array(gateway.jvm.long, 1 << 30)

    if name == "sweep":
        return swept(spark, end)
    if name == "queued":
        return outcomes(spark, ["averaging", "averaging"], end, queued=1)[1]
    (found,) = outcomes(spark, [name], end)
    return found


def swept(spark, end):
    """What becomes of a sweep whose second trial the end of the session overtakes."""

    def made(trial):
        return dense(), {"epochs": 1 if trial.number == 0 else 100_000}

    options = {"master": MASTERS["averaging"], "validation": numbered(10), "display": False}
    sweep = sw.sweep(spark, made, numbered(40), trials=4, wait=False, **options)
    wait_until(lambda: 1 in sweep.runs and sweep.runs[1].status.epoch >= 3, 120)
    began_s = time.monotonic()
    end()
    found = failure_of(sweep)
    found["trials"] = [trial.state.name for trial in sweep.study.trials]
    return {**found, "seconds": time.monotonic() - began_s}


def failure_of(waited):
    """The error that `wait` raises, with its notes."""
    try:
        waited.wait(60)
        error = AssertionError("it did not fail")
    except Exception as failure:
        error = failure
    text = " ".join([str(error), *getattr(error, "__notes__", ())])
    return {"kind": type(error).__name__, "text": text}


def end_connect_sessions():
    from pyspark.sql import SparkSession
    from tests.support.connect_server import ConnectServer

    found = []
    with ConnectServer() as server:
        for names, how in (
            (["averaging", "sharing"], "time out"),
            (["driver"], "restart"),
            (["averaging", "spark"], "kill"),
        ):
            spark = SparkSession.builder.remote(server.url).create()
            # What the server does itself when a session has been idle for too long.
            times_out = spark.client.release_session
            end = {"time out": times_out, "restart": server.restart, "kill": server.close}[how]
            found += outcomes(spark, names, end)
        print(json.dumps(found), flush=True)
    os._exit(0)  # PySpark would wait for the server


def outcomes(spark, names, end, *, queued=0):
    """Train with the masters at once, call `end`, and return what became of the runs.

    The last `queued` runs wait for slots meanwhile.
    """
    models = [dense() for _ in names]
    before = [weights(model) for model in models]
    runs = [
        sw.SparkNetwork(spark, model, MASTERS[name]).start(
            numbered(40), epochs=100_000, display=False
        )
        for name, model in zip(names, models, strict=True)
    ]
    for run in runs[: len(runs) - queued]:
        wait_until(lambda run=run: run.status.epoch >= 3, 120)
    began_s = time.monotonic()
    end()
    found = []
    for run, model, then in zip(runs, models, before, strict=True):
        found.append(
            {
                **failure_of(run),
                "changed": float(np.abs(weights(model) - then).max()),
                "seconds": time.monotonic() - began_s,
                "state": run.status.state,
            }
        )
    return found
