"""Rules about Spark settings that end or refuse workers, and about encryption. Pure."""

import re
from collections.abc import Iterator, Mapping

from ._diagnosis import Check
from ._findings import Findings, SparkFacts
from ._notes import Note, Rule, fault, ok, warning

Settings = Mapping[str, str]

_FEWEST_FAILURES = 4


def encryption_checks(findings: Findings) -> Iterator[Check]:
    """Check encryption if executors are on other machines."""
    if findings.spark is None:
        return
    hosts = {place.host for place in findings.executors} - {findings.driver.host}
    if hosts or (not findings.executors and not findings.spark.master.startswith("local")):
        yield _encryption(findings.spark).check("Encryption", "Spark")


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


def _idle_workers(spark: SparkFacts) -> Note:
    ends = _is_on(spark.settings, "spark.python.worker.killOnIdleTimeout")
    seconds = spark.settings.get("spark.python.worker.idleTimeoutSeconds", "0")
    if ends and seconds != "0":
        return fault(
            f"Spark ends Python workers that are idle for {seconds} s",
            "Set spark.python.worker.killOnIdleTimeout=false: training tasks send it nothing.",
        )
    return ok("Spark does not end idle Python workers")


def _exclusion(spark: SparkFacts) -> Note:
    if not _is_on(spark.settings, "spark.excludeOnFailure.enabled"):
        return ok("off")
    return warning(
        "spark.excludeOnFailure.enabled=true: executors that failed get no tasks for a while",
        "Turn it off, or start one executor more than there are workers: a lost worker may find "
        "no place.",
    )


def _serializer(spark: SparkFacts) -> Note:
    name = spark.settings.get("spark.serializer", "JavaSerializer").rpartition(".")[2]
    if name == "KryoSerializer" and _is_on(spark.settings, "spark.kryo.registrationRequired"):
        return warning(
            "Kryo, which refuses classes that were not registered",
            "Set spark.kryo.registrationRequired=false: PySpark's own classes are not registered.",
        )
    return ok(f"{name}; either serves, Spark sees only bytes of the data")


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


def _is_on(settings: Settings, name: str) -> bool:
    return settings.get(name, "").strip().lower() == "true"


SETTINGS_RULES = (
    Rule("Speculation", _speculation, "Spark"),
    Rule("Retries", _retries, "Spark"),
    Rule("Silent Python workers", _idle_workers, "Spark"),
    Rule("Exclusion", _exclusion, "Spark"),
    Rule("Serializer", _serializer, "Spark"),
)
