import json
import logging
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cases import cases
from tests.support.fake_gpus import fake_gpus

import sparkwright as sw
from sparkwright.cluster.slots import GPUS_OF_TRAINING, gpus_of_executor
from sparkwright.spark import _session, gpus as _gpus
from sparkwright.spark.gpus import EXECUTOR_AMOUNT, TASK_AMOUNT, gpu_settings

LOCAL = {"spark.master": "local-cluster[2,4,1024]"}
CLUSTER = {"spark.master": "spark://m:7077"}
WORKER_SCRIPT = "spark.worker.resource.gpu.discoveryScript"
EXECUTOR_SCRIPT = "spark.executor.resource.gpu.discoveryScript"


def test_gpus_are_assigned_to_all_tasks_or_only_to_training_tasks():
    with fake_gpus(4):
        assert gpu_settings(2, LOCAL)[TASK_AMOUNT] == "1"
        found = gpu_settings(2, LOCAL, tasks="networks")
    assert TASK_AMOUNT not in found
    assert found[EXECUTOR_AMOUNT] == found["spark.worker.resource.gpu.amount"] == "2"


def test_only_training_executors_have_gpus_with_dynamic_allocation():
    chosen = {**CLUSTER, "spark.dynamicAllocation.enabled": "true"}
    found = gpu_settings(2, chosen, tasks="networks")
    assert found == {EXECUTOR_AMOUNT: "0", GPUS_OF_TRAINING: "2"}
    assert gpus_of_executor(found) == 2
    assert gpu_settings(2, chosen)[EXECUTOR_AMOUNT] == "2"


def test_each_local_executor_is_assigned_its_own_gpus():
    with fake_gpus(5):
        script = gpu_settings(2, LOCAL)[WORKER_SCRIPT]
    calls = [subprocess.run([script], capture_output=True, text=True) for _ in range(3)]
    hands = [json.loads(call.stdout)["addresses"] for call in calls[:2]]
    assert hands == [["0", "1"], ["2", "3"]]
    assert calls[2].returncode == 1
    assert "are assigned" in calls[2].stderr
    assert Path(script).stat().st_mode & 0o777 == 0o700


@cases(
    "amount, settings, message",
    (2, LOCAL, r"workers=2, gpus_per_executor=2, 4 .*has 3 \("),
    (1, {"spark.master": "local[2]"}, r"master='local\[2\]'"),
    ids=["too few GPUs", "no executors"],
)
def test_gpus_that_executors_cannot_have_are_rejected_before_spark_starts(
    amount, settings, message
):
    with fake_gpus(3), pytest.raises(sw.ConfigurationError, match=message):
        gpu_settings(amount, settings)


def test_cpus_replace_gpus_only_on_request(caplog, monkeypatch):
    monkeypatch.setattr(_gpus, "leave_gpus_to_workers", lambda: None)
    with pytest.raises(sw.ConfigurationError, match="nvidia-smi"):
        gpu_settings(1, LOCAL)
    with caplog.at_level(logging.WARNING):
        assert gpu_settings(1, LOCAL, cpu_fallback=True) == {}
    assert "training on CPUs" in caplog.text
    found = gpu_settings(1, CLUSTER, cpu_fallback=True)
    assert found["spark.executorEnv.SPARKWRIGHT_CPU_FALLBACK"] == "1"
    assert not any("FALLBACK" in key for key in gpu_settings(1, CLUSTER))


def test_yarn_ships_the_script_to_each_container():
    chosen = {"spark.master": "yarn", "spark.yarn.dist.files": "hdfs:///a.txt"}
    found = gpu_settings(2, chosen)
    first, second = found["spark.yarn.dist.files"].split(",")
    assert first == "hdfs:///a.txt"
    script = Path(second.removeprefix("file://"))
    assert found[EXECUTOR_SCRIPT] == f"./{script.name}"
    assert found["spark.executorEnv.SPARKWRIGHT_GPUS_PER_EXECUTOR"] == "2"
    assert os.access(script, os.X_OK)
    own = gpu_settings(2, {**chosen, EXECUTOR_SCRIPT: "/opt/find"})
    assert own == {EXECUTOR_AMOUNT: "2", TASK_AMOUNT: "1"}


def test_kubernetes_image_must_contain_its_script():
    chosen = {"spark.master": "k8s://https://m:6443"}
    with pytest.raises(sw.ConfigurationError, match="executors' image"):
        gpu_settings(1, chosen)
    found = gpu_settings(1, {**chosen, EXECUTOR_SCRIPT: "/opt/find"})
    assert found["spark.executor.resource.gpu.vendor"] == "nvidia.com"


@cases(
    "options, named",
    ({"gpus_per_executor": -1}, "gpus_per_executor=-1"),
    ({"gpus_per_executor": 1, "gpu_tasks": "some"}, "gpu_tasks='some'"),
    ({"node_label": "gpu", "master": "spark://m:7077"}, "node_label='gpu'"),
)
def test_invalid_options_are_named(monkeypatch, options, named):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(sw.ConfigurationError, match=re.escape(named)):
        sw.start_spark(**options)


def test_yarn_places_executors_on_labeled_machines():
    found = _session._label_settings("gpu", {"spark.master": "yarn"})
    assert found == {"spark.yarn.executor.nodeLabelExpression": "gpu"}


def session(**conf):
    """As much of a Spark session as is asked for its settings."""
    found = {**CLUSTER, **{k.replace("_", "."): v for k, v in conf.items()}}
    context = SimpleNamespace(
        master=found["spark.master"],
        getConf=lambda: SimpleNamespace(get=lambda key, default=None: found.get(key, default)),
    )
    return SimpleNamespace(sparkContext=context)


GPU = {"spark_executor_resource_gpu_amount": "2"}


def test_existing_session_must_have_the_gpus(monkeypatch):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", session)
    monkeypatch.setattr(_session, "_warn_about_differences", lambda *_: None)
    with pytest.raises(sw.ConfigurationError, match="gpus_per_executor=1, a session with 0"):
        sw.start_spark(gpus_per_executor=1)
    sw.start_spark(gpus_per_executor=1, cpu_fallback=True)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: session(**GPU))
    sw.start_spark(gpus_per_executor=2)


@cases("amount", "0.5", "2")
def test_tasks_that_share_gpus_or_use_several_are_rejected(amount):
    _gpus.check_gpus(session())
    _gpus.check_gpus(session(**GPU))
    with pytest.raises(sw.ConfigurationError, match=rf"gpu\.amount={amount}"):
        _gpus.check_gpus(session(**GPU, spark_task_resource_gpu_amount=amount))
