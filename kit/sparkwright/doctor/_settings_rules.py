"""Rules about Spark settings that affect training. Pure."""

import re
from collections.abc import Iterator, Mapping

from ._diagnosis import Check
from ._findings import Findings, SparkFacts
from ._notes import Note, Rule, fault, ok, seconds_of, warning

Settings = Mapping[str, str]

_LEVELS = ("process", "node", "rack")
_FEWEST_FAILURES = 4
_SHORTEST_IDLE_S = 600.0
_LONGEST_CLEANING_S = 3600.0


def encryption_checks(findings: Findings) -> Iterator[Check]:
    """Check encryption if executors are on other machines."""
    if findings.spark is None:
        return
    hosts = {place.host for place in findings.executors} - {findings.driver.host}
    if hosts or (not findings.executors and not findings.spark.master.startswith("local")):
        yield _encryption(findings.spark).check("Encryption", "Spark")


def _locality(spark: SparkFacts) -> Note:
    default = spark.settings.get("spark.locality.wait", "3s")
    names = ("spark.locality.wait", *(f"spark.locality.wait.{n}" for n in _LEVELS))
    waits = {name: spark.settings.get(name, default) for name in names}
    longer = {name: wait for name, wait in waits.items() if seconds_of(wait, unit="ms") != 0}
    if not longer:
        return ok("spark.locality.wait=0s")
    changed = ", ".join(f"{name}={wait}" for name, wait in longer.items() if name in spark.settings)
    return warning(
        changed or "spark.locality.wait=3s, Spark's default",
        "Set spark.locality.wait=0s: moving a partition is cheaper than a worker that waits.",
    )


def _speculation(spark: SparkFacts) -> Note:
    threshold = "spark.speculation.task.duration.threshold"
    if not _is_on(spark.settings, "spark.speculation"):
        return ok("off")
    if not spark.settings.get(threshold):
        return ok("on; workers are not copied, because each is the only task of its job")
    return fault(
        f"{threshold}={spark.settings[threshold]}: Spark would start copies of workers",
        f"Remove spark.speculation or {threshold}.",
    )


def _retries(spark: SparkFacts) -> Note:
    given = spark.settings.get("spark.task.maxFailures")
    if match := re.fullmatch(r"local(?:\[\s*[\d*]+\s*(?:,\s*(\d+)\s*)?\])?", spark.master):
        given = match[1] or "1"
    failures = int(given or _FEWEST_FAILURES)
    text = f"a task may fail {failures} time{'s' * (failures > 1)}"
    if failures >= _FEWEST_FAILURES:
        return ok(text)
    remedy = f"Set spark.task.maxFailures={_FEWEST_FAILURES}, or local[n,{_FEWEST_FAILURES}]: "
    remedy += "a lost worker is started again so often, less once."
    return Note("problem" if failures == 1 else "warning", text, remedy)


def _reuse(spark: SparkFacts) -> Note:
    if _is_on(spark.settings, "spark.python.worker.reuse", default="true"):
        return ok("Python workers are used again")
    return warning(
        "spark.python.worker.reuse=false",
        "Set it to true, Spark's default: each task would start a Python of its own.",
    )


def _idle_workers(spark: SparkFacts) -> Note:
    ends = _is_on(spark.settings, "spark.python.worker.killOnIdleTimeout")
    seconds = seconds_of(spark.settings.get("spark.python.worker.idleTimeoutSeconds", "0"))
    if ends and seconds != 0:
        return fault(
            f"Spark ends Python workers that are idle for {seconds:g} s",
            "Set spark.python.worker.killOnIdleTimeout=false: training tasks send it nothing.",
        )
    return ok("Spark does not end idle Python workers")


def _dynamic(spark: SparkFacts) -> Note:
    settings = spark.settings
    if not _is_on(settings, "spark.dynamicAllocation.enabled"):
        return ok("off: executors stay")
    idle = seconds_of(settings.get("spark.dynamicAllocation.executorIdleTimeout", "60s"))
    least = int(settings.get("spark.dynamicAllocation.minExecutors", "0") or 0)
    if least > 0 or (idle is not None and idle >= _SHORTEST_IDLE_S):
        return ok(f"on: at least {least} executors, which go when idle for {idle:g} s")
    return warning(
        "on: idle executors go away, and with them the processes that hold TensorFlow",
        "Set spark.dynamicAllocation.minExecutors to the number of workers, or "
        "spark.dynamicAllocation.executorIdleTimeout=30min.",
    )


def _exclusion(spark: SparkFacts) -> Note:
    if not _is_on(spark.settings, "spark.excludeOnFailure.enabled"):
        return ok("off")
    return warning(
        "spark.excludeOnFailure.enabled=true: executors that failed get no tasks for a while",
        "Turn it off, or start one executor more than there are workers: a lost worker may find "
        "no place.",
    )


def _task_cpus(spark: SparkFacts) -> Note:
    cpus = int(spark.settings.get("spark.task.cpus", "1") or 1)
    cores = spark.settings.get("spark.executor.cores")
    if cores is not None and int(cores) % cpus:
        return warning(
            f"{cpus} of {cores} cores of an executor",
            "Make spark.executor.cores a multiple of spark.task.cpus: the rest is never used.",
        )
    return ok(f"{cpus}: so many threads has each worker")


def _serializer(spark: SparkFacts) -> Note:
    name = spark.settings.get("spark.serializer", "JavaSerializer").rpartition(".")[2]
    if name == "KryoSerializer" and _is_on(spark.settings, "spark.kryo.registrationRequired"):
        return warning(
            "Kryo, which refuses classes that were not registered",
            "Set spark.kryo.registrationRequired=false: PySpark's own classes are not registered.",
        )
    return ok(f"{name}; either serves, Spark sees only bytes of the data")


def _cleaning(spark: SparkFacts) -> Note:
    interval = spark.settings.get("spark.cleaner.periodicGC.interval", "30min")
    if not _is_on(spark.settings, "spark.cleaner.referenceTracking", default="true"):
        return warning(
            "spark.cleaner.referenceTracking=false: broadcasts and shuffles are never removed",
            "Leave it out. Each run, evaluation and prediction leaves some.",
        )
    seconds = seconds_of(interval)
    if seconds is None or seconds > _LONGEST_CLEANING_S:
        return warning(
            f"the driver's Java collects garbage every {interval}",
            "Set spark.cleaner.periodicGC.interval=30min: only then are old shuffles removed from "
            "the executors' disks.",
        )
    return ok(f"every {interval}")


def _arrow(spark: SparkFacts) -> Note:
    if _is_on(spark.settings, "spark.sql.execution.arrow.pyspark.enabled"):
        return ok("on")
    return warning(
        "off",
        "Set spark.sql.execution.arrow.pyspark.enabled=true: `toPandas` is many times as fast.",
    )


def _encryption(spark: SparkFacts) -> Note:
    names = ("spark.authenticate", "spark.network.crypto.enabled")
    off = [name for name in names if not _is_on(spark.settings, name)]
    if _is_on(spark.settings, "spark.ssl.rpc.enabled"):
        off = []
    shared = "YARN's default container executor runs all tenants' containers as one user"
    on_yarn = spark.master.startswith("yarn")
    if not off:
        return ok("tasks travel encrypted" + f"; {shared}" * on_yarn)
    remedy = f"Set {' and '.join(f'{name}=true' for name in off)}. "
    if on_yarn:
        remedy += f"{shared}, who can reach each other's processes: use LinuxContainerExecutor."
    else:
        remedy += "On a standalone cluster all machines need spark.authenticate.secret, too."
    found = f"off: {', '.join(off)}; the secret of a run travels readable in its tasks"
    return warning(found, remedy)


def _is_on(settings: Settings, name: str, *, default: str = "false") -> bool:
    return settings.get(name, default).strip().lower() == "true"


SETTINGS_RULES = (
    Rule("Locality wait", _locality, "Spark"),
    Rule("Speculation", _speculation, "Spark"),
    Rule("Retries", _retries, "Spark"),
    Rule("Python worker reuse", _reuse, "Spark"),
    Rule("Silent Python workers", _idle_workers, "Spark"),
    Rule("Dynamic allocation", _dynamic, "Spark"),
    Rule("Exclusion", _exclusion, "Spark"),
    Rule("Cores per task", _task_cpus, "Spark"),
    Rule("Serializer", _serializer, "Spark"),
    Rule("Cleaning", _cleaning, "Spark"),
    Rule("Arrow", _arrow, "Spark"),
)
