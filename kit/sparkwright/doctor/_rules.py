"""All rules; here those of Spark's job, GPUs, ports, clocks and settings. Pure."""

import math
import re
from collections.abc import Iterator, Mapping

from sparkwright.timeline.summary import seconds_text

from ._diagnosis import Check, Diagnosis
from ._findings import Findings, Note, Place, SparkFacts, fault, grouped, ok, unchecked, warning
from ._version_rules import version_checks

# Clocks synchronized by NTP differ by a few milliseconds.
_CLOCK_WARNS_S = 0.1
# Kerberos rejects tickets if clocks differ by more.
_CLOCK_FAILS_S = 300.0
_CLOCK_STEP_S = 0.01
_MOST_PEERS_NAMED = 3
_FEWEST_FAILURES = 4

_OPEN = (
    "Open the ports between the machines, name those that are open with `MeshConfig(ports=…)`, or "
    "the network to use with `MeshConfig(network_mask=…)`."
)
_DRIVER_INSTEAD = (
    ' Where executors may not open ports for one another, train with `communication="driver"`.'
)
_KNOWN_FAILURES = {
    "PYTHON_VERSION_MISMATCH": (
        "Set PYSPARK_PYTHON for executors to a Python of the driver's version "
        "(`spark.pyspark.python`), or ship an environment with `spark.archives`."
    ),
    "Cannot run program": (
        "There is no such Python on the executors: set `spark.pyspark.python`, or ship an "
        "environment with `spark.archives`."
    ),
    "No module named 'pyspark'": (
        "The executors' Python finds no PySpark: install it there, or unset PYTHONPATH."
    ),
    "No module named 'sparkwright": (
        "The executors have no sparkwright of this version: install it there, or remove "
        "`spark.sparkwright.ship=never`, so that it is sent to them."
    ),
    "no task of": (
        "Other jobs may hold all slots, or the cluster has given no executors: look at Spark's "
        "pages, and at the cluster manager's. Wait longer with `timeout_s=`."
    ),
}


def diagnose(findings: Findings) -> Diagnosis:
    rules = (_job_checks, version_checks, _gpu_checks, _network_checks, _clock_checks)
    checks = [check for rule in (*rules, _setting_checks) for check in rule(findings)]
    return Diagnosis(tuple(checks))


def _job_checks(findings: Findings) -> Iterator[Check]:
    """Check that the executors were examined."""
    if findings.spark_problem:
        remedy = "See what it says; `sparkwright.start_spark` gives the same."
        yield fault(findings.spark_problem, remedy).check("Spark")
    spark = findings.spark
    if spark is None:
        if not findings.spark_problem:
            note = unchecked("no Spark session", "Call `sw.doctor(spark)`.")
            yield note.check("Executors")
        return
    seen = len(findings.executors)
    if findings.job_problem:
        note = _failed_job(findings.job_problem)
    elif not seen:
        return
    else:
        note = ok(f"{seen} looked at, {spark.tasks} task slots")
        if spark.came is not None and spark.came < spark.tasks:
            note = warning(
                f"{spark.came} of {spark.tasks} tasks ran at the same time, on {seen} executors",
                "A run needs all its workers at once. Other jobs may hold the slots, GPUs may be "
                "fewer than cores, or executors were still starting: look again.",
            )
    yield note.check("Executors")


def _failed_job(problem: str) -> Note:
    """Explain a failed job by keywords in Spark's error message."""
    for words, remedy in _KNOWN_FAILURES.items():
        if words in problem:
            return fault(problem, remedy)
    return fault(problem, "Look into the executors' logs (stderr) in Spark's pages.")


def _gpu_checks(findings: Findings) -> Iterator[Check]:
    """Check the available GPUs, and those that Spark assigns to tasks."""
    wanted = findings.spark.gpus if findings.spark else 0
    if findings.spark and wanted and not findings.spark.gives_gpus:
        text = f"{wanted} an executor, of those that Spark starts when a network trains"
        yield unchecked(text).check("GPUs")
        return
    # The driver needs no GPU; its GPUs matter only if it is the only place.
    places = findings.executors or (findings.driver,)
    yield from grouped("GPUs", [(place, _gpus(place, wanted)) for place in places], findings)


def _gpus(place: Place, wanted: int) -> Note:
    found = "; ".join(place.gpus)
    if place.gpu_problem:
        return Note(
            "problem" if wanted else "warning",
            place.gpu_problem,
            "Check the driver: `nvidia-smi` must list the GPUs of this machine.",
        )
    if wanted and not place.gpu_addresses:
        return fault(
            f"Spark was asked for {wanted} an executor and gave the task none",
            "Set `spark.task.resource.gpu.amount` and the discovery script.",
        )
    if wanted and len(place.gpus) < wanted:
        return fault(
            f"Spark gave address {', '.join(place.gpu_addresses)}; nvidia-smi lists "
            f"{len(place.gpus)} of {wanted}",
            "Check the discovery script, and that containers are given the devices.",
        )
    if wanted:
        return ok(f"{wanted} an executor: {found}")
    if place.gpus:
        return warning(
            f"not used: {found}",
            "Start Spark with `gpus_per_executor=` to train on them.",
        )
    return ok("none, and none asked for")


def _network_checks(findings: Findings) -> Iterator[Check]:
    """Check the driver's port, and the connections to it and between executors."""
    if (problem := findings.port_problem) is not None:
        note = fault(problem, _OPEN) if problem else ok("a port could be opened")
        yield note.check("Port of the driver", findings.driver.label)
    executors = findings.executors
    yield from grouped("Driver reached", [(p, _to_driver(p)) for p in executors], findings)
    notes = [(place, note) for place in executors for note in _to_peers(place)]
    yield from grouped("Executors reached", notes, findings)


def _to_driver(place: Place) -> Note:
    problem = place.driver_problem
    if problem is None:
        return unchecked("the driver had no port open")
    elif not problem:
        return ok("the driver's port was reached and its secret proved")
    elif "cannot be imported" in problem:
        return fault(problem, "Install or ship what is missing: docs/shipping.md.")
    else:
        return fault(
            problem,
            "Workers connect to the driver. Let it be reached: `spark.driver.host`, "
            "`MeshConfig(controller_address=…)` where the driver is behind a router, and a "
            "firewall that lets `MeshConfig(ports=…)` pass. Where that cannot be had, train with "
            '`communication="spark"`.',
        )


def _to_peers(place: Place) -> Iterator[Note]:
    if place.port_problem:
        yield fault(place.port_problem, _OPEN + _DRIVER_INSTEAD)
    elif place.port_problem is None:
        yield unchecked("not asked to connect to one another")
    if lost := _lost(place.peers):
        yield fault(lost, _OPEN + _DRIVER_INSTEAD)
    elif place.peers:
        yield ok("every other executor's port that was tried was reached")
    elif place.port_problem == "":
        yield ok("a port could be opened; there is no other executor to reach")


def _lost(peers: Mapping[str, str]) -> str:
    lost = [f"{label} was not reached: {problem}" for label, problem in peers.items() if problem]
    more = len(lost) - _MOST_PEERS_NAMED
    return "; ".join(lost[:_MOST_PEERS_NAMED]) + (f"; and {more} more" if more > 0 else "")


def _clock_checks(findings: Findings) -> Iterator[Check]:
    """Check the offsets from the driver's clock; small offsets are combined in one row."""
    notes = [(place, _clock(place)) for place in findings.executors]
    yield from grouped("Clock", notes, findings)
    good = [place for place, note in notes if note is None]
    if good:
        # The largest possible offset, including uncertainty.
        most = max(abs(p.clock.offset_s) + p.clock.uncertainty_s for p in good if p.clock)
        note = ok(f"within {seconds_text(most)} of the driver's")
        yield from grouped("Clock", [(place, note) for place in good], findings)


def _clock(place: Place) -> Note | None:
    """Return a note on a clock, or None if its offset is small."""
    clock = place.clock
    if clock is None:
        return unchecked("it is compared over the connection to the driver")
    surely_s = abs(clock.offset_s) - clock.uncertainty_s
    if surely_s <= _CLOCK_WARNS_S:
        return None
    side = "ahead of" if clock.offset_s > 0 else "behind"
    # Rounded up to 10 ms, so that executors of one machine share a row.
    steps = math.ceil(clock.uncertainty_s / _CLOCK_STEP_S)
    found = (
        f"{seconds_text(round(abs(clock.offset_s), 2))} {side} the driver's, give or take "
        f"{seconds_text(max(1, steps) * _CLOCK_STEP_S)}"
    )
    remedy = (
        "Have both machines keep time by NTP (`timedatectl set-ntp true`, or chrony). Timelines "
        "measure the difference and correct it; dates of files and logs are wrong."
    )
    if surely_s > _CLOCK_FAILS_S:
        return fault(found, f"Kerberos refuses it. {remedy}")
    return warning(found, remedy)


def _setting_checks(findings: Findings) -> Iterator[Check]:
    """Check settings with which Spark ends, copies or refuses workers, and encryption."""
    spark = findings.spark
    if spark is None:
        return
    for name, judge in _SETTINGS.items():
        yield judge(spark).check(name)
    # It matters if executors are on other machines.
    hosts = {place.host for place in findings.executors} - {findings.driver.host}
    if hosts or (not findings.executors and not spark.master.startswith("local")):
        yield _encryption(spark).check("Encryption")


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


def _is_on(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(name, "").strip().lower() == "true"


_SETTINGS = {
    "Speculation": _speculation,
    "Retries": _retries,
    "Silent Python workers": _idle_workers,
    "Exclusion": _exclusion,
    "Serializer": _serializer,
}
