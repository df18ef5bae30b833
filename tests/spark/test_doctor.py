import json
import os
import socket
import subprocess
import sys

import pytest
from tests.ports import held_port
from tests.scripts import json_printed_by
from tests.spark.helpers import busy

import sparkwright as sw
from sparkwright.cluster.connect import is_connect

pytestmark = pytest.mark.spark


def rows(diagnosis, name):
    return [(check.where, check.status) for check in diagnosis.find(name)]


@pytest.mark.connect
def test_every_executor_is_checked(spark, leaves_nothing):
    diagnosis = sw.doctor()  # of the active session
    assert diagnosis.ok, diagnosis
    assert diagnosis.find("Executors")[0].found == "4 looked at, 4 task slots"
    for name in ("Python", "sparkwright", "PySpark", "TensorFlow", "Keras", "NumPy"):
        assert rows(diagnosis, name) == [("driver, all 4 executors", "ok")]
    java = "all 4 executors" if is_connect(spark) else "driver, all 4 executors"
    assert rows(diagnosis, "Java") == [(java, "ok")]
    for name in ("Driver reached", "Executors reached", "Clock"):
        assert rows(diagnosis, name) == [("all 4 executors", "ok")]
    assert json.loads(diagnosis.to_json())["ok"] is True


@pytest.mark.thorough
def test_driver_with_occupied_ports_is_reported(spark):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        diagnosis = sw.doctor(spark, mesh=sw.MeshConfig(ports=port))
    (check,) = diagnosis.problems
    assert (check.name, check.where) == ("Port of the driver", "driver")
    assert str(port) in check.found
    assert {c.status for c in diagnosis.find("Driver reached")} == {"not checked"}


def test_executors_without_a_free_port_are_reported(spark):
    """The driver takes the only one."""
    with held_port() as port:
        diagnosis = sw.doctor(spark, mesh=sw.MeshConfig(ports=port))
    (check,) = diagnosis.problems
    assert (check.name, check.where) == ("Executors reached", "all 4 executors")
    assert rows(diagnosis, "Port of the driver") == [("driver", "ok")]


@pytest.mark.thorough
def test_driver_unreachable_from_executors_is_reported(spark):
    mesh = sw.MeshConfig(controller_address="127.0.0.2")  # where it does not listen
    diagnosis = sw.doctor(spark, mesh=mesh, timeout_s=4)
    (check,) = diagnosis.problems
    assert (check.name, check.where) == ("Driver reached", "all 4 executors")
    assert "127.0.0.2" in check.found
    assert rows(diagnosis, "TensorFlow") == [("driver, all 4 executors", "ok")]


@pytest.mark.thorough
def test_slots_held_by_another_job_are_reported_and_do_not_block(spark):
    assert sw.doctor(spark).ok  # Python has started on all executors
    with busy(spark, 2):
        diagnosis = sw.doctor(spark, timeout_s=8)  # a quarter of it is spent on waiting for more
    (check,) = diagnosis.find("Executors")
    assert check.status == "warning"
    assert check.found == "2 of 4 tasks ran at the same time, on 2 executors"
    assert diagnosis.ok
    with busy(spark, 4):
        diagnosis = sw.doctor(spark, timeout_s=2)
    (check,) = diagnosis.problems
    assert check.found == "no task of 4 began within 2 s"
    assert "timeout_s" in check.remedy
    # The doctor's job was cancelled: the next one finds the slots free.
    assert sw.doctor(spark).ok


@pytest.mark.cluster
def test_gpus_reserved_for_networks_are_checked(tmp_path):
    """Two executors with two cores and a GPU each; `nvidia-smi` is made up."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 0, made up, 1 MiB, 1.0\n")
    program.chmod(0o755)
    script = """
import json
import sparkwright as sw
from tests.support.fake_gpus import fake_gpus

with fake_gpus(2):
    spark = sw.start_spark(
        workers=2, cores_per_worker=2, gpus_per_executor=1, gpu_tasks="networks"
    )
print(json.dumps(sw.doctor(spark).to_dict()))
spark.stop()
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = json_printed_by("-c", script, environment=environment)
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["Executors"]["found"] == "2 looked at, 2 task slots"
    found = checks["GPUs"]
    assert (found["where"], found["status"]) == ("all 2 executors", "ok")
    assert found["found"] == "1 an executor: 0, made up, 1 MiB, 1.0"


def test_invalid_options_raise(spark):
    with pytest.raises(sw.ConfigurationError, match="of at least 1 and of at most 3600"):
        sw.doctor(spark, timeout_s=0)


def command(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "sparkwright.doctor", "--json", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.cluster
def test_spark_that_does_not_start_is_a_problem_with_its_reason(tmp_path):
    code, found = command(JAVA_HOME=str(tmp_path), SPARK_LOCAL_HOSTNAME="localhost")
    assert code == 1
    (check,) = [c for c in found["checks"] if c["status"] == "problem" and c["name"] == "Spark"]
    assert "Spark needs Java 17 or 21" in check["found"]


@pytest.mark.cluster
def test_command_starts_spark_with_settings_and_checks_them():
    settings = {
        "spark.task.maxFailures": "1",
        "spark.speculation": "true",
        "spark.speculation.task.duration.threshold": "3s",
    }
    given = [text for pair in settings.items() for text in ("--conf", "=".join(pair))]
    code, found = command("--workers", "1", *given)
    wrong = {c["name"]: c["status"] for c in found["checks"] if c["where"] == "Spark"}
    assert code == 1
    assert (wrong["Retries"], wrong["Speculation"]) == ("problem", "problem")
    assert wrong["Executors"] == "ok"


@pytest.mark.thorough(but=["torch-1"])
@pytest.mark.parametrize(("backend", "code"), [("tensorflow", 0), ("torch", 1)])
def test_command_exits_with_1_if_there_is_a_problem(backend, code):
    ended, found = command("--no-spark", KERAS_BACKEND=backend)
    assert (ended, found["ok"]) == (code, not code)
