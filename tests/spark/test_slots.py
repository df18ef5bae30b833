from types import SimpleNamespace

import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.cluster import slots as _slots
from sparkwright.cluster.slots import slots_at_most, wait_for_slots
from sparkwright.spark import _session

YARN, STANDALONE = "yarn", "spark://master:7077"
DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
GPUS = {"spark.executor.resource.gpu.amount": "2"}


EXECUTORS, CORES = "spark.executor.instances", "spark.executor.cores"
TASK_CORES, MOST_CORES = "spark.task.cpus", "spark.cores.max"


@cases(
    "master, settings, slots",
    ("local", {}, 1),
    ("local[3]", {}, 3),
    ("local[3,4]", {TASK_CORES: "2"}, 1),
    ("local-cluster[2,3,1024]", {TASK_CORES: "2"}, 2),
    ("local-cluster[2,8,1024]", {CORES: "3"}, 12),
    ("local-cluster[2,1,1024]", {CORES: "8"}, 0),
    ("local-cluster[2,8,1024]", GPUS, 4),
    (YARN, {}, 2),
    # Two executors of three cores hold two tasks of two, not three.
    (YARN, {EXECUTORS: "2", CORES: "3", TASK_CORES: "2"}, 2),
    (YARN, GPUS | {EXECUTORS: "2", CORES: "8"}, 4),
    ("k8s://https://cluster:6443", {EXECUTORS: "5"}, 5),
    (YARN, DYNAMIC, None),
    (YARN, DYNAMIC | {"spark.dynamicAllocation.maxExecutors": "4"}, 4),
    # A standalone cluster knows nothing of instances.
    (STANDALONE, {EXECUTORS: "2", MOST_CORES: "8"}, 8),
    (STANDALONE, {MOST_CORES: "8", CORES: "3"}, 6),
    (STANDALONE, {MOST_CORES: "2", CORES: "4"}, 0),
    (STANDALONE, {CORES: "4"}, None),
    (STANDALONE, DYNAMIC | {MOST_CORES: "8"}, None),
    # That says how many partitions there are, not how many tasks run at once.
    ("local[2]", {"spark.default.parallelism": "200"}, 2),
    ("elsewhere://", {}, None),
)
def test_settings_limit_the_slots(master, settings, slots):
    assert slots_at_most(master, settings) == slots


@cases(
    "submitted, cores",
    ({}, "6"),
    ({CORES: "4"}, "12"),
    ({EXECUTORS: "8"}, "16"),
    ({MOST_CORES: "5"}, "5"),
)
def test_standalone_cluster_provides_the_cores_of_the_requested_executors(submitted, cores):
    chosen = _session._settings(
        workers=3, cores=2, memory_mb=1024, master=STANDALONE, app_name="test"
    )
    chosen = chosen | submitted
    assert (chosen | _session._standalone_cores(chosen))["spark.cores.max"] == cores


@cases(
    "master, settings",
    (STANDALONE, {MOST_CORES: 2, CORES: 4}),
    ("local-cluster[2,1,1024]", {CORES: 8}),
    ("local[2]", {TASK_CORES: 4}),
)
def test_settings_that_allow_no_task_are_rejected(monkeypatch, master, settings):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(sw.ConfigurationError, match="each executor needs the cores") as refused:
        sw.start_spark(master=master, settings=settings)
    for name, value in settings.items():
        assert f"{name}={value}" in str(refused.value)


@pytest.fixture
def come(monkeypatch):
    """Says how many slots there are at each look; the last counts from then on."""

    def say(*counts):
        left = iter(counts)
        monkeypatch.setattr(_slots, "slots_now", lambda _: next(left, counts[-1]))

    monkeypatch.setattr(_slots, "executor_count", lambda _: 1)
    monkeypatch.setattr(_slots, "_LOOK_AGAIN_S", 0.01)
    return say


def session(conf):
    return SimpleNamespace(sparkContext=SimpleNamespace(master=STANDALONE, getConf=lambda: conf))


def test_run_waits_for_executors_that_have_not_started(come):
    come(0, 1, 1, 4)
    assert wait_for_slots(session({}), 3) == 4


@cases(
    "settings, message",
    ({}, r"workers=3; the driver waited 0\.1 s .* 1 slots in 1 executors\. Check"),
    (GPUS, r"executors of 2 GPUs.*gpus_per_executor=0"),
    ids=["without GPUs", "with GPUs"],
)
def test_missing_executors_are_counted_after_the_wait(come, settings, message):
    come(0, 1)
    short = {"spark.sparkwright.slotTimeout": "0.1", **settings}
    with pytest.raises(sw.errors.SlotsError, match=message):
        wait_for_slots(session(short), 3)


def test_cancelled_run_stops_waiting_for_slots(come):
    come(1)
    with pytest.raises(sw.errors.SlotsError, match="cancelled with 1 of 3 task slots"):
        wait_for_slots(session({}), 3, cancelled=lambda: True)


def test_dynamic_allocation_does_not_wait_for_executors(come):
    come(0)
    assert wait_for_slots(session(DYNAMIC), 3) is None
