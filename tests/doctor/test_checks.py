"""Each problem made up as values, and what is said of it."""

from dataclasses import replace
from typing import Any

import pytest

from sparkwright.doctor._doctor import diagnose
from sparkwright.doctor._findings import (
    GIB,
    MIB,
    CachedData,
    Clock,
    Findings,
    Logind,
    Memory,
    Place,
    SparkFacts,
)
from sparkwright.spark import plan_memory

VERSIONS = {
    "Python": "3.11.9",
    "sparkwright": "0.6.0",
    "sparkwright's sources": "0123456789ab",
    "PySpark": "4.3.0",
    "TensorFlow": "2.21.0",
    "Keras": "3.15.0",
    "NumPy": "2.3.4",
    "PyArrow": "24.0.0",
    "pandas": "2.3.3",
    "Java": "17.0.15",
}
MEMORY = Memory(
    total=64 * GIB,
    heap=GIB,
    shared=GIB,
    shared_writable=True,
    scratch=50 * GIB,
    scratch_folder="/s",
)
SETTINGS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.executor.cores": "1",
    "spark.locality.wait": "0s",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def place(label: str, **found: Any) -> Place:
    given: dict[str, Any] = {
        "host": label.rstrip(")")[-1],
        "versions": VERSIONS,
        "cores": 4,
        "open_files": 4096,
        "memory": MEMORY,
    }
    if label != "driver":
        given |= {
            "clock": Clock(offset_s=0.001, uncertainty_s=0.0005),
            "driver_problem": "",
            "port_problem": "",
            "peers": {"executor 9 (z)": ""},
        }
    return Place(label=label, **{**given, **found})


DRIVER, FIRST, SECOND = place("driver"), place("executor 0 (a)"), place("executor 1 (b)")
SPARK = SparkFacts(master="spark://a:7077", settings=SETTINGS, tasks=2, came=2, executors=2)
FINE = Findings(driver=DRIVER, executors=(FIRST, SECOND), spark=SPARK, port_problem="")


def with_executor(**found: Any) -> Findings:
    """The second executor is different."""
    return replace(FINE, executors=(FIRST, replace(SECOND, **found)))


def with_settings(master: str = SPARK.master, **found: str) -> Findings:
    settings = {**SETTINGS, **{name.replace("__", "."): value for name, value in found.items()}}
    return replace(FINE, spark=replace(SPARK, master=master, settings=settings))


def told(findings: Findings, name: str) -> list[tuple[str, str, str]]:
    return [(check.where, check.status, check.found) for check in diagnose(findings).find(name)]


def the_trouble(findings: Findings, name: str) -> Any:
    """The one row that is not ok, and it is of this name."""
    (check,) = [check for check in diagnose(findings).checks if check.status != "ok"]
    assert check.name == name
    assert check.remedy.endswith(".")
    return check


def test_where_nothing_is_wrong_every_check_is_ok() -> None:
    diagnosis = diagnose(FINE)
    assert {check.status for check in diagnosis.checks} == {"ok"}
    assert diagnosis.ok
    assert not any(check.remedy for check in diagnosis.checks)


def test_machines_that_agree_are_one_row() -> None:
    assert told(FINE, "TensorFlow") == [("driver, all 2 executors", "ok", "2.21.0")]


@pytest.mark.parametrize(
    ("name", "version", "status"),
    [
        ("Python", "3.12.1", "problem"),
        ("Python", "3.11.2", "ok"),
        ("sparkwright", "0.6.1", "problem"),
        ("sparkwright's sources", "0123456789ac", "problem"),
        ("PySpark", "4.2.0", "problem"),
        ("PySpark", "4.3.1", "warning"),
        ("TensorFlow", "2.20.0", "problem"),
        ("TensorFlow", "2.21.1", "warning"),
        ("Keras", "3.14.0", "problem"),
        ("NumPy", "1.26.4", "problem"),
        ("NumPy", "2.2.0", "warning"),
        ("PyArrow", "23.0.0", "warning"),
        ("pandas", "3.0.0", "warning"),
        ("Java", "21.0.1", "warning"),
    ],
)
def test_an_executor_with_another_version_is_named(name: str, version: str, status: str) -> None:
    findings = with_executor(versions={**VERSIONS, name: version})
    first, second = diagnose(findings).find(name)
    assert (first.where, first.status) == ("driver, executor 0 (a)", "ok")
    assert (second.where, second.status) == ("executor 1 (b)", status)
    assert second.found == f"{version}, but the driver has {VERSIONS[name]}"
    assert (VERSIONS[name] in second.remedy) == (status != "ok")


@pytest.mark.parametrize("name", ["sparkwright", "TensorFlow", "Keras", "NumPy", "PyArrow"])
def test_an_executor_without_a_package_is_a_problem(name: str) -> None:
    check = the_trouble(with_executor(versions={**VERSIONS, name: None}), name)
    assert (check.where, check.status) == ("executor 1 (b)", "problem")
    assert check.found == "is not installed"


def test_pandas_is_not_needed_on_executors() -> None:
    assert diagnose(with_executor(versions={**VERSIONS, "pandas": None})).ok


def test_a_version_older_than_the_kit_needs_is_a_problem_on_the_driver_too() -> None:
    driver = replace(DRIVER, versions={**VERSIONS, "TensorFlow": "2.15.0"})
    check = diagnose(replace(FINE, driver=driver)).problems[0]
    assert (check.where, check.found) == ("driver", "2.15.0; 2.18 is needed")


def test_the_oldest_versions_are_those_that_the_package_asks_for() -> None:
    import importlib.metadata
    import re

    from sparkwright.doctor._version_checks import RULES

    needs = importlib.metadata.requires("sparkwright") or []
    for name, rule in RULES.items():
        found = [n for n in needs if re.match(rf"{name.lower()}\b", n) and "extra" not in n]
        if found:
            match = re.search(r">=([\d.]+)", found[0])
            assert match
            assert rule.least == tuple(map(int, match[1].split("."))), name


def test_a_java_that_was_not_tried_is_a_warning() -> None:
    versions = {**VERSIONS, "Java": "11.0.2"}
    both = (replace(FIRST, versions=versions), replace(SECOND, versions=versions))
    findings = replace(FINE, driver=replace(DRIVER, versions=versions), executors=both)
    assert the_trouble(findings, "Java").found == "11.0.2 was not tried"


def test_another_backend_of_keras_is_a_problem() -> None:
    driver = replace(DRIVER, environment={"KERAS_BACKEND": "jax"})
    assert the_trouble(replace(FINE, driver=driver), "Keras' backend").status == "problem"


def test_a_driver_that_an_executor_cannot_reach_is_a_problem() -> None:
    check = the_trouble(with_executor(driver_problem="10.0.0.1:40123 refused"), "Driver reached")
    assert (check.where, check.found) == ("executor 1 (b)", "10.0.0.1:40123 refused")
    assert "spark.driver.host" in check.remedy


def test_a_port_that_the_driver_cannot_open_is_a_problem() -> None:
    unheard = [replace(p, driver_problem=None, clock=None) for p in (FIRST, SECOND)]
    findings = replace(FINE, port_problem="no port could be opened", executors=tuple(unheard))
    diagnosis = diagnose(findings)
    assert diagnosis.find("Port of the driver")[0].status == "problem"
    assert {c.status for c in diagnosis.find("Driver reached")} == {"not checked"}
    assert {c.status for c in diagnosis.find("Clock")} == {"not checked"}


def test_executors_that_cannot_reach_each_other_are_named() -> None:
    peers = {"executor 0 (a)": "10.0.0.2:5 (timed out)", "executor 2 (c)": ""}
    check = the_trouble(with_executor(peers=peers), "Executors reached")
    assert check.status == "problem"
    assert check.found == "executor 0 (a) was not reached: 10.0.0.2:5 (timed out)"
    assert 'communication="spark"' in check.remedy


def test_many_executors_out_of_reach_are_counted() -> None:
    peers = {f"executor {n} (z)": "closed" for n in range(9)}
    assert the_trouble(with_executor(peers=peers), "Executors reached").found.endswith("and 6 more")


def test_an_executor_that_can_open_no_port_is_a_problem() -> None:
    findings = with_executor(port_problem="no port", peers={})
    assert the_trouble(findings, "Executors reached").status == "problem"


@pytest.mark.parametrize(
    ("offset_s", "status"), [(0.2, "warning"), (-5.0, "warning"), (400.0, "problem")]
)
def test_a_clock_that_is_wrong_is_told(offset_s: float, status: str) -> None:
    findings = with_executor(clock=Clock(offset_s=offset_s, uncertainty_s=0.01))
    check = the_trouble(findings, "Clock")
    assert check.status == status
    assert ("ahead of" if offset_s > 0 else "behind") in check.found
    assert told(findings, "Clock")[1] == ("executor 0 (a)", "ok", "within 1.5 ms of the driver's")


def test_clocks_of_one_machine_are_one_row() -> None:
    clocks = (
        Clock(offset_s=5.0001, uncertainty_s=2e-4),
        Clock(offset_s=4.9998, uncertainty_s=4e-4),
    )
    both = tuple(replace(p, clock=c) for p, c in zip((FIRST, SECOND), clocks, strict=True))
    check = the_trouble(replace(FINE, executors=both), "Clock")
    assert check.found == "5 s ahead of the driver's, give or take 10 ms"


def test_a_clock_that_cannot_be_told_from_a_right_one_is_right() -> None:
    findings = with_executor(clock=Clock(offset_s=0.5, uncertainty_s=0.45))
    assert diagnose(findings).ok
    assert not diagnose(findings).warnings


@pytest.mark.parametrize("master", ["yarn", "k8s://https://a:443"])
def test_a_container_without_room_for_tensorflow_is_a_problem(master: str) -> None:
    """Spark adds a tenth of the heap, 384 MiB at least: less than one worker takes."""
    findings = with_settings(master, spark__executor__cores="2")
    check = diagnose(findings).problems[0]
    assert check.name == "Memory"
    assert check.found == (
        "2 workers with TensorFlow and a small network need about 2.1 GiB outside Java's heap; "
        "the container has 384 MiB for that"
    )
    assert "`spark.executor.memoryOverhead` to 2184m" in check.remedy
    roomy = {"spark__executor__memoryOverhead": "2184m", "spark__executor__cores": "2"}
    assert diagnose(with_settings(master, **roomy)).ok


def test_a_memory_plans_smallest_network_has_room_by_the_doctors_reckoning() -> None:
    plan = plan_memory(1, executor_memory="1g", workers=1)
    roomy = {"spark__executor__memoryOverhead": f"{plan.overhead_mib}m"}
    assert diagnose(with_settings("yarn", **roomy)).ok


def test_executors_that_need_more_than_their_machine_has_are_a_warning() -> None:
    small = replace(MEMORY, total=3 * GIB)
    both = tuple(replace(p, host="a", memory=small) for p in (FIRST, SECOND))
    check = the_trouble(replace(FINE, executors=both), "Memory")
    assert check.status == "warning"
    assert check.found == (
        "3.0 GiB in this machine; Java's heap 1.0 GiB, beside it about 1.3 GiB with 1 worker with "
        "TensorFlow, times 2 executors on this machine: 4.6 GiB in all"
    )
    apart = tuple(replace(p, memory=small) for p in (FIRST, SECOND))
    assert not diagnose(replace(FINE, executors=apart)).warnings


def test_the_containers_limit_counts_not_the_machines_memory() -> None:
    check = the_trouble(with_executor(memory=replace(MEMORY, limit=GIB)), "Memory")
    assert check.found.startswith("1.0 GiB in this container")


def test_a_driver_whose_heap_leaves_no_room_is_a_warning() -> None:
    memory = replace(MEMORY, total=2 * GIB, heap=2 * GIB)
    findings = replace(FINE, driver=replace(DRIVER, memory=memory))
    assert "spark.driver.memory" in the_trouble(findings, "Memory").remedy


@pytest.mark.parametrize(
    ("memory", "gpus"),
    [
        (replace(MEMORY, shared=16 * MIB), ()),
        (replace(MEMORY, shared=64 * MIB), ("0, A100", "1, A100")),
        (replace(MEMORY, shared_writable=False), ()),
    ],
)
def test_shared_memory_that_is_too_small_is_a_warning(memory: Memory, gpus: Any) -> None:
    findings = with_executor(memory=memory, gpus=gpus)
    (check,) = [c for c in diagnose(findings).find("/dev/shm") if c.status != "ok"]
    assert check.status == "warning"


def test_a_full_disk_is_a_warning_that_names_the_folder() -> None:
    check = the_trouble(with_executor(memory=replace(MEMORY, scratch=MIB)), "Temporary files")
    assert check.found == "1 MiB free in /s"


@pytest.mark.parametrize(("limit", "status"), [(2 * GIB, "problem"), (8 * GIB, "warning")])
def test_a_limit_of_pythons_memory_is_told(limit: int, status: str) -> None:
    findings = with_executor(memory=replace(MEMORY, address_space=limit))
    check = the_trouble(findings, "Python's memory limit")
    assert check.status == status
    assert "pyspark.memory" in check.remedy


def test_too_few_open_files_for_many_workers_are_a_warning() -> None:
    spark = replace(SPARK, tasks=1000, came=1000)
    findings = replace(FINE, spark=spark, driver=replace(DRIVER, open_files=1024))
    assert any(c.where == "driver" for c in diagnose(findings).find("Open files"))
    assert not diagnose(replace(FINE, driver=replace(DRIVER, open_files=1024))).warnings


def test_more_slots_than_cores_are_a_warning() -> None:
    both = tuple(replace(p, host="a", cores=1) for p in (FIRST, SECOND))
    assert the_trouble(replace(FINE, executors=both), "Cores").found == "1, but Spark promises 2"


@pytest.mark.parametrize("value", ["8", "8,2", "many"])
def test_more_threads_than_cores_are_a_warning(value: str) -> None:
    check = the_trouble(with_executor(environment={"OMP_NUM_THREADS": value}), "Threads")
    assert f"OMP_NUM_THREADS={value}" in check.found
    assert diagnose(with_executor(environment={"OMP_NUM_THREADS": "4"})).warnings == ()


def test_a_preloaded_library_that_is_missing_is_a_warning() -> None:
    findings = with_executor(preloads_missing=("/usr/lib64/libgomp.so.1",))
    assert "/usr/lib64/libgomp.so.1" in the_trouble(findings, "Thread libraries").found


@pytest.mark.parametrize(
    ("layer", "mkl", "is_wrong"),
    [("INTEL", None, True), ("", "2025.0", True), ("", None, False), ("GNU", "2025.0", False)],
)
def test_mkl_beside_another_openmp_is_a_warning(
    layer: str, mkl: str | None, is_wrong: bool
) -> None:
    environment = {"LD_PRELOAD": "/usr/lib64/libgomp.so.1"}
    environment |= {"MKL_THREADING_LAYER": layer} if layer else {}
    findings = with_executor(environment=environment, versions={**VERSIONS, "MKL": mkl})
    assert bool(diagnose(findings).warnings) == is_wrong


GPU = "0, NVIDIA A100, 40960 MiB, 570.1"


def test_a_gpu_that_spark_gives_is_ok() -> None:
    both = tuple(replace(p, gpus=(GPU,), gpu_addresses=("0",)) for p in (FIRST, SECOND))
    findings = replace(FINE, spark=replace(SPARK, gpus=1), executors=both)
    assert told(findings, "GPUs") == [("all 2 executors", "ok", f"1 an executor: {GPU}")]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"gpus": (GPU,)}, "gave the task none"),
        ({"gpu_addresses": ("0",)}, "nvidia-smi lists 0 of 1"),
        ({"gpu_problem": "nvidia-smi failed: no driver"}, "no driver"),
    ],
)
def test_gpus_that_were_promised_and_are_not_there_are_a_problem(found: Any, words: str) -> None:
    good = replace(FIRST, gpus=(GPU,), gpu_addresses=("0",))
    findings = replace(FINE, spark=replace(SPARK, gpus=1))
    check = the_trouble(replace(findings, executors=(good, replace(SECOND, **found))), "GPUs")
    assert check.status == "problem"
    assert words in check.found


def test_gpus_of_executors_that_start_only_to_train_are_not_judged() -> None:
    """With dynamic allocation those that are there have none."""
    findings = replace(FINE, spark=replace(SPARK, gpus=2, gives_gpus=False))
    (check,) = diagnose(findings).find("GPUs")
    assert (check.where, check.status) == ("Spark", "not checked")
    assert check.found == "2 an executor, of those that Spark starts when a network trains"


def test_an_executor_trains_as_many_networks_as_it_has_gpus() -> None:
    both = tuple(replace(p, gpus=(GPU,), gpu_addresses=("0",)) for p in (FIRST, SECOND))
    settings = {"spark__executor__memoryOverhead": "1309m", "spark__executor__cores": "4"}
    four = replace(with_settings("yarn", **settings), executors=both)
    assert not diagnose(four).ok
    assert four.spark is not None
    assert diagnose(replace(four, spark=replace(four.spark, gpus=1))).ok


def test_gpus_that_nobody_asked_for_are_a_warning() -> None:
    assert "gpus_per_executor" in the_trouble(with_executor(gpus=(GPU,)), "GPUs").remedy


@pytest.mark.parametrize(
    ("logind", "status"),
    [
        (Logind(user="hadoop", kills=True), "warning"),
        (Logind(user="hadoop", kills=True, lingers=True), "ok"),
        (Logind(user="hadoop", kills=False), "ok"),
        (Logind(user="hadoop"), "not checked"),
    ],
)
def test_executors_that_end_when_somebody_logs_out_are_a_warning(
    logind: Logind, status: str
) -> None:
    checks = diagnose(with_executor(logind=logind)).find("Processes after logout")
    assert checks[-1].status == status
    assert ("loginctl enable-linger hadoop" in checks[-1].remedy) == (status == "warning")


@pytest.mark.parametrize(
    ("settings", "name", "status"),
    [
        ({"spark__locality__wait": "3s"}, "Locality wait", "warning"),
        ({"spark__locality__wait__node": "1s"}, "Locality wait", "warning"),
        ({"spark__locality__wait": "0"}, "Locality wait", "ok"),
        ({"spark__speculation": "true"}, "Speculation", "problem"),
        ({"spark__task__maxFailures": "1"}, "Retries", "problem"),
        ({"spark__task__maxFailures": "2"}, "Retries", "warning"),
        ({"spark__python__worker__reuse": "false"}, "Python worker reuse", "warning"),
        (
            {
                "spark__python__worker__killOnIdleTimeout": "true",
                "spark__python__worker__idleTimeoutSeconds": "60",
            },
            "Silent Python workers",
            "problem",
        ),
        ({"spark__dynamicAllocation__enabled": "true"}, "Dynamic allocation", "warning"),
        (
            {
                "spark__dynamicAllocation__enabled": "true",
                "spark__dynamicAllocation__minExecutors": "2",
            },
            "Dynamic allocation",
            "ok",
        ),
        ({"spark__excludeOnFailure__enabled": "true"}, "Exclusion", "warning"),
        ({"spark__task__cpus": "2", "spark__executor__cores": "3"}, "Cores per task", "warning"),
        ({"spark__serializer": "org.apache.spark.serializer.KryoSerializer"}, "Serializer", "ok"),
        (
            {
                "spark__serializer": "org.apache.spark.serializer.KryoSerializer",
                "spark__kryo__registrationRequired": "true",
            },
            "Serializer",
            "warning",
        ),
        ({"spark__cleaner__periodicGC__interval": "12h"}, "Cleaning", "warning"),
        ({"spark__cleaner__referenceTracking": "false"}, "Cleaning", "warning"),
        ({"spark__sql__execution__arrow__pyspark__enabled": "false"}, "Arrow", "warning"),
        ({"spark__authenticate": "false"}, "Encryption", "warning"),
        ({"spark__network__crypto__enabled": "false"}, "Encryption", "warning"),
        (
            {"spark__network__crypto__enabled": "false", "spark__ssl__rpc__enabled": "true"},
            "Encryption",
            "ok",
        ),
    ],
)
def test_a_setting_is_judged(settings: dict[str, str], name: str, status: str) -> None:
    diagnosis = diagnose(with_settings(**settings))
    (check,) = diagnosis.find(name)
    assert check.status == status
    assert bool(check.remedy) == (status != "ok")
    assert [c.name for c in diagnosis.checks if c.status != "ok"] == [name] * (status != "ok")


def test_encryption_matters_only_where_executors_are_on_other_machines() -> None:
    bare = replace(FINE, spark=replace(SPARK, settings={}))
    (check,) = diagnose(bare).find("Encryption")
    assert "spark.authenticate=true and spark.network.crypto.enabled=true" in check.remedy
    here = replace(bare, executors=(replace(FIRST, host=DRIVER.host),))
    assert not diagnose(here).find("Encryption")
    unseen = replace(bare, executors=())
    assert diagnose(unseen).find("Encryption")
    assert not diagnose(replace(unseen, spark=SparkFacts(master="local[2]"))).find("Encryption")


def test_tenants_of_yarn_that_share_a_user_are_named() -> None:
    (check,) = diagnose(with_settings("yarn")).find("Encryption")
    assert (check.status, "runs all tenants' containers as one user" in check.found) == ("ok", True)
    (check,) = diagnose(with_settings("yarn", spark__authenticate="false")).find("Encryption")
    assert (check.status, "LinuxContainerExecutor" in check.remedy) == ("warning", True)


def test_locality_is_told_to_wait_where_nobody_says_otherwise() -> None:
    findings = replace(FINE, spark=replace(SPARK, settings={"spark.executor.cores": "1"}))
    assert diagnose(findings).find("Locality wait")[0].status == "warning"


@pytest.mark.parametrize(
    ("master", "status"), [("local[2]", "problem"), ("local[2,4]", "ok"), ("local", "problem")]
)
def test_local_spark_tries_a_task_as_often_as_its_address_says(master: str, status: str) -> None:
    assert diagnose(with_settings(master)).find("Retries")[0].status == status


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (CachedData(name="a", level="Memory", partitions=4, cached=4, uses_disk=False), "ok"),
        (CachedData(name="a", level="Memory", partitions=4, cached=2, uses_disk=False), "warning"),
        (CachedData(name="a", level="Disk", partitions=4, cached=2, uses_disk=True), "ok"),
        (
            CachedData(
                name="a",
                level="Off heap",
                partitions=4,
                cached=4,
                uses_disk=True,
                uses_off_heap=True,
            ),
            "warning",
        ),
    ],
)
def test_a_storage_level_is_judged_by_what_spark_does_with_it(
    data: CachedData, status: str
) -> None:
    checks = diagnose(replace(FINE, spark=replace(SPARK, cached=(data,)))).find("Cached data")
    assert [(check.where, check.status) for check in checks] == [("a", status)]


def test_a_folder_that_an_executor_does_not_see_is_a_problem() -> None:
    fine = {"hdfs://n/a": ""}
    findings = replace(
        FINE,
        driver=replace(DRIVER, files=fine),
        executors=(replace(FIRST, files=fine), replace(SECOND, files={"hdfs://n/a": "not there"})),
    )
    check = the_trouble(findings, "Files hdfs://n/a")
    assert (check.where, check.found) == ("executor 1 (b)", "not there")


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "PYSPARK_PYTHON"),
        ('Cannot run program "python3.11": error=2', "spark.pyspark.python"),
        ("no task of 2 began within 60 s", "slots"),
        ("something else", "logs"),
    ],
)
def test_a_job_that_fails_is_explained(problem: str, remedy: str) -> None:
    findings = replace(FINE, executors=(), job_problem=problem)
    (check,) = diagnose(findings).problems
    assert (check.name, check.found) == ("Executors", problem)
    assert remedy in check.remedy


def test_slots_that_are_taken_are_a_warning() -> None:
    check = the_trouble(replace(FINE, spark=replace(SPARK, came=1)), "Executors")
    assert check.found == "1 of 2 tasks ran at the same time, on 2 executors"


def test_without_spark_only_this_machine_is_judged() -> None:
    diagnosis = diagnose(Findings(driver=DRIVER))
    assert diagnosis.ok
    assert diagnosis.find("Executors")[0].status == "not checked"
    assert not diagnosis.find("Locality wait")


def test_a_spark_that_does_not_start_is_a_problem() -> None:
    diagnosis = diagnose(Findings(driver=DRIVER, spark_problem="Spark needs Java"))
    assert [check.found for check in diagnosis.problems] == ["Spark needs Java"]
