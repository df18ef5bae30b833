import importlib.metadata
import re
from dataclasses import replace

from tests.cases import cases

from sparkwright.doctor._findings import Findings, Place, SparkFacts
from sparkwright.doctor._rules import diagnose
from sparkwright.doctor._version_rules import PACKAGES
from sparkwright.timeline.clocks import Offset

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
SETTINGS = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


def place(label, **found):
    given = {"host": label.rstrip(")")[-1], "versions": VERSIONS}
    if label != "driver":
        given |= {
            "clock": Offset(offset_s=0.001, uncertainty_s=0.0005),
            "driver_problem": "",
            "port_problem": "",
            "peers": {"executor 9 (z)": ""},
        }
    return Place(label=label, **{**given, **found})


DRIVER, FIRST, SECOND = place("driver"), place("executor 0 (a)"), place("executor 1 (b)")
SPARK = SparkFacts(master="spark://a:7077", settings=SETTINGS, tasks=2, came=2)
FINE = Findings(driver=DRIVER, executors=(FIRST, SECOND), spark=SPARK, port_problem="")


def with_executor(**found):
    """The second executor is different."""
    return replace(FINE, executors=(FIRST, replace(SECOND, **found)))


def with_driver(**found):
    """The driver is different."""
    return replace(FINE, driver=replace(DRIVER, **found))


def with_both(**found):
    """Both executors are different."""
    return replace(FINE, executors=tuple(replace(each, **found) for each in (FIRST, SECOND)))


def with_spark(findings=FINE, **found):
    """The facts about Spark are different."""
    assert findings.spark is not None
    return replace(findings, spark=replace(findings.spark, **found))


def with_versions(**versions):
    return {"versions": {**VERSIONS, **versions}}


def clock(offset_s, uncertainty_s=0.01):
    return {"clock": Offset(offset_s=offset_s, uncertainty_s=uncertainty_s)}


def with_settings(master=SPARK.master, **found):
    settings = {**SETTINGS, **{name.replace("__", "."): value for name, value in found.items()}}
    return replace(FINE, spark=replace(SPARK, master=master, settings=settings))


GPU = "0, NVIDIA A100, 40960 MiB, 570.1"
GIVEN = {"gpus": (GPU,), "gpu_addresses": ("0",)}
KRYO = "org.apache.spark.serializer.KryoSerializer"
LOST = {"executor 0 (a)": "10.0.0.2:5 (timed out)", "executor 2 (c)": ""}


def lacks_gpu(**found):
    executors = (replace(FIRST, **GIVEN), replace(SECOND, **found))
    return replace(with_spark(gpus=1), executors=executors)


def everywhere(findings, **versions):
    """Driver and executors have these versions."""
    found = with_versions(**versions)
    executors = tuple(replace(each, **found) for each in findings.executors)
    return replace(findings, driver=replace(findings.driver, **found), executors=executors)


OLD_SPARK = everywhere(FINE, PySpark="3.5.9")

# Findings, the check that judges them, its worst status, and words of where, found or remedy.
CASES = [
    (FINE, "TensorFlow", "ok", "driver, all 2 executors: 2.21.0"),
    (with_driver(backend="jax"), "JAX", "problem", "is not installed"),
    (with_executor(**with_versions(pandas=None)), "pandas", "ok", ""),
    (with_both(**with_versions(Java="11.0.2")), "Java", "warning", "Install Java 17 or 21."),
    (OLD_SPARK, "PySpark", "ok", "3.5.9"),
    (
        everywhere(OLD_SPARK, PySpark="3.5.9", Java="21.0.1"),
        *("Java", "warning", "PySpark 3.5.9 does not support Java 21.0.1"),
    ),
    (
        everywhere(OLD_SPARK, PySpark="3.5.9", Python="3.12.1"),
        *("Python", "warning", "Use Python 3.11, or a newer PySpark."),
    ),
    (
        everywhere(FINE, PyArrow="17.0"),
        *("PyArrow", "problem", "driver, all 2 executors: 17.0; 18 is needed"),
    ),
    (with_driver(backend="torch"), "Keras' backend", "problem", "torch"),
    (with_executor(driver_problem="a:4 refused"), "Driver reached", "problem", "(b): a:4 refused"),
    (with_executor(driver_problem="no"), "Driver reached", "problem", "spark.driver.host"),
    (with_executor(peers=LOST), "Executors reached", "problem", "10.0.0.2:5 (timed out)"),
    (with_executor(peers=LOST), "Executors reached", "problem", 'communication="driver"'),
    (
        with_executor(peers={f"executor {n} (z)": "closed" for n in range(9)}),
        *("Executors reached", "problem", "and 6 more"),
    ),
    (with_executor(port_problem="no port", peers={}), "Executors reached", "problem", "no port"),
    (with_executor(**clock(0.2)), "Clock", "warning", "ahead of"),
    (with_executor(**clock(0.2)), "Clock", "warning", "executor 0 (a): within 1.5 ms"),
    (with_executor(**clock(-5.0)), "Clock", "warning", "behind"),
    (with_executor(**clock(400.0)), "Clock", "problem", "Kerberos"),
    (with_executor(**clock(0.5, 0.45)), "Clock", "ok", "within"),
    (
        with_spark(with_both(**GIVEN), gpus=1),
        "GPUs",
        "ok",
        f"all 2 executors: 1 an executor: {GPU}",
    ),
    (lacks_gpu(gpus=(GPU,)), "GPUs", "problem", "gave the task none"),
    (lacks_gpu(gpu_addresses=("0",)), "GPUs", "problem", "nvidia-smi lists 0 of 1"),
    (lacks_gpu(gpu_problem="nvidia-smi failed: no driver"), "GPUs", "problem", "no driver"),
    # With dynamic allocation executors that are there have no GPUs yet.
    (with_spark(gpus=2, gives_gpus=False), "GPUs", "not checked", "Spark: 2 an executor"),
    (with_executor(gpus=(GPU,)), "GPUs", "warning", "gpus_per_executor"),
    (with_spark(came=1), "Executors", "warning", "1 of 2 tasks ran at the same time"),
]


@cases("findings, name, status, words", *CASES)
def test_findings_are_classified(findings, name, status, words):
    checks = diagnose(findings).checks
    trouble = {(check.name, check.status) for check in checks if check.status != "ok"}
    assert trouble == ({(name, status)} if status != "ok" else set())
    found = [check for check in checks if check.name == name]
    assert any(words in f"{each.where}: {each.found} -> {each.remedy}" for each in found)
    for check in checks:
        is_trouble = check.status in ("problem", "warning")
        assert check.remedy.endswith("." if is_trouble else "")


@cases(
    "name, version, status",
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
)
def test_executor_with_a_different_version_is_reported(name, version, status):
    findings = with_executor(**with_versions(**{name: version}))
    first, second = diagnose(findings).find(name)
    assert (first.where, first.status) == ("driver, executor 0 (a)", "ok")
    assert (second.where, second.status) == ("executor 1 (b)", status)
    assert second.found == f"{version}, but the driver has {VERSIONS[name]}"
    assert (VERSIONS[name] in second.remedy) == (status != "ok")


@cases("name", "sparkwright", "TensorFlow", "Keras", "NumPy", "PyArrow")
def test_executor_without_a_package_is_a_problem(name):
    (check,) = diagnose(with_executor(**with_versions(**{name: None}))).problems
    assert (check.name, check.where) == (name, "executor 1 (b)")
    assert check.found == "is not installed"


def test_minimum_versions_match_the_package_requirements():
    needs = importlib.metadata.requires("sparkwright") or []
    for name, rule in PACKAGES.items():
        found = [n for n in needs if re.match(rf"{name.lower()}\b", n) and "extra" not in n]
        for need in found[:1]:
            (least,) = re.findall(r">=([\d.]+)", need)
            assert rule.least == tuple(map(int, least.split("."))), name


def test_port_that_the_driver_cannot_open_is_a_problem():
    unheard = with_both(driver_problem=None, clock=None)
    diagnosis = diagnose(replace(unheard, port_problem="no port could be opened"))
    statuses = [
        (name, {check.status for check in diagnosis.find(name)})
        for name in ("Port of the driver", "Driver reached", "Clock")
    ]
    assert [found for _, found in statuses] == [{"problem"}, {"not checked"}, {"not checked"}]


def test_clocks_of_one_machine_share_a_row():
    first, second = replace(FIRST, **clock(5.0001, 2e-4)), replace(SECOND, **clock(4.9998, 4e-4))
    (check,) = diagnose(replace(FINE, executors=(first, second))).find("Clock")
    assert check.found == "5 s ahead of the driver's, give or take 10 ms"


@cases(
    "settings, name, status",
    ("speculation=true", "Speculation", "ok"),
    ("speculation=true speculation.task.duration.threshold=30s", *("Speculation", "problem")),
    ("task.maxFailures=1", "Retries", "problem"),
    ("task.maxFailures=2", "Retries", "warning"),
    (
        "python.worker.killOnIdleTimeout=true python.worker.idleTimeoutSeconds=60",
        *("Silent Python workers", "problem"),
    ),
    ("excludeOnFailure.enabled=true", "Exclusion", "warning"),
    (f"serializer={KRYO}", "Serializer", "ok"),
    (f"serializer={KRYO} kryo.registrationRequired=true", "Serializer", "warning"),
    ("authenticate=false", "Encryption", "warning"),
    ("network.crypto.enabled=false", "Encryption", "warning"),
    ("network.crypto.enabled=false ssl.rpc.enabled=true", "Encryption", "ok"),
)
def test_settings_are_classified(settings, name, status):
    given = dict(f"spark.{setting}".split("=") for setting in settings.split())
    diagnosis = diagnose(with_settings(**given))
    (check,) = diagnosis.find(name)
    assert check.status == status
    assert bool(check.remedy) == (status != "ok")
    assert [c.name for c in diagnosis.checks if c.status != "ok"] == [name] * (status != "ok")


def test_encryption_matters_only_with_executors_on_other_machines():
    bare = replace(FINE, spark=replace(SPARK, settings={}))
    (check,) = diagnose(bare).find("Encryption")
    assert "spark.authenticate=true and spark.network.crypto.enabled=true" in check.remedy
    here = replace(bare, executors=(replace(FIRST, host=DRIVER.host),))
    assert not diagnose(here).find("Encryption")
    unseen = replace(bare, executors=())
    assert diagnose(unseen).find("Encryption")
    assert not diagnose(replace(unseen, spark=SparkFacts(master="local[2]"))).find("Encryption")


def test_yarn_user_shared_by_all_tenants_is_reported():
    (check,) = diagnose(with_settings("yarn")).find("Encryption")
    assert (check.status, "runs all tenants' containers as one user" in check.found) == ("ok", True)
    (check,) = diagnose(with_settings("yarn", spark__authenticate="false")).find("Encryption")
    assert (check.status, "LinuxContainerExecutor" in check.remedy) == ("warning", True)


@cases("master, status", ("local[2]", "problem"), ("local[2,4]", "ok"), ("local", "problem"))
def test_local_spark_retries_a_task_as_its_master_url_specifies(master, status):
    assert diagnose(with_settings(master)).find("Retries")[0].status == status


@cases(
    "problem, remedy",
    ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "PYSPARK_PYTHON"),
    ('Cannot run program "python3.11": error=2', "spark.pyspark.python"),
    ("No module named 'sparkwright'", "spark.sparkwright.ship"),
    ("no task of 2 began within 60 s", "slots"),
    ("something else", "logs"),
)
def test_failed_job_is_explained(problem, remedy):
    findings = replace(FINE, executors=(), job_problem=problem)
    (check,) = diagnose(findings).problems
    assert (check.name, check.found) == ("Executors", problem)
    assert remedy in check.remedy


def test_only_this_machine_is_checked_without_spark():
    diagnosis = diagnose(Findings(driver=DRIVER))
    assert diagnosis.ok
    assert diagnosis.find("Executors")[0].status == "not checked"
    assert not diagnosis.find("Retries")
    diagnosis = diagnose(Findings(driver=DRIVER, spark_problem="Spark needs Java"))
    assert [check.found for check in diagnosis.problems] == ["Spark needs Java"]
