"""All rules, in display order; here those of folders, limits, GPUs and Spark settings. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping

from sparkwright.timeline.summary import size_text

from ._diagnosis import Check, Diagnosis
from ._executor_rules import (
    NETWORK_RULES,
    VERSION_RULES,
    clock_checks,
    file_checks,
    job_checks,
)
from ._findings import GIB, MIB, Findings, Place, SparkFacts
from ._notes import Note, Rule, fault, grouped, ok, unchecked, warning

_LEAST_SHARED = 32 * MIB
_LEAST_SCRATCH = GIB
# TensorFlow reserves 2.2 GiB of virtual memory without any data.
_LEAST_ADDRESS_SPACE, _ROOMY_ADDRESS_SPACE = 4 * GIB, 16 * GIB
_FEWEST_FAILURES = 4


def _shared(place: Place, _: Findings) -> Note | None:
    if place.shared is None:
        return unchecked("there is none")
    elif not place.shared_writable:
        remedy = "Locks between processes live there: mount it with mode 1777."
        return warning("cannot be written to", remedy)
    elif place.shared < (GIB if len(place.gpus) > 1 else _LEAST_SHARED):
        remedy = "Give the container more: `--shm-size=1g`, or a memory volume on Kubernetes."
        return warning(f"only {size_text(place.shared)}", remedy)
    else:
        return ok(size_text(place.shared))


def _scratch(place: Place, _: Findings) -> Note | None:
    free = place.scratch
    if free is None:
        return None
    if free >= _LEAST_SCRATCH:
        # Without path and exact size, so that equal notes are combined.
        return ok("1 GiB or more free")
    return warning(
        f"{size_text(free)} free in {place.scratch_folder}",
        "Workers keep their part of the data there: free some, or set `spark.local.dir` (on "
        "YARN the administrator's `yarn.nodemanager.local-dirs`).",
    )


def _address_space(place: Place, _: Findings) -> Note | None:
    limit = place.address_space
    if limit is None:
        return None
    found = f"a process may map {size_text(limit)}"
    if limit >= _ROOMY_ADDRESS_SPACE:
        return ok(found)
    return Note(
        "problem" if limit < _LEAST_ADDRESS_SPACE else "warning",
        found,
        "TensorFlow maps 2.2 GiB before it has any data, far more than it uses. Leave "
        "`spark.executor.pyspark.memory` out, or lift the limit (`ulimit -v unlimited`); "
        "containers limit what is really used.",
    )


def _open_files(place: Place, findings: Findings) -> Note | None:
    tasks = findings.spark.tasks if findings.spark else 1
    # A connection to each worker, and files of other libraries.
    needed = 256 + 2 * tasks
    if place.open_files is not None and place.open_files - place.open_files_used < needed:
        used = f", {place.open_files_used} are open" if place.open_files_used else ""
        return warning(
            f"at most {place.open_files}{used}",
            f"Raise it for {tasks} workers: `ulimit -n {max(4096, needed)}` before Spark starts.",
        )


def _gpu_checks(findings: Findings) -> Iterator[Check]:
    """Check the available GPUs, and those that Spark assigns to tasks."""
    wanted = findings.spark.gpus if findings.spark else 0
    if findings.spark and wanted and not findings.spark.gives_gpus:
        text = f"{wanted} an executor, of those that Spark starts when a network trains"
        yield unchecked(text).check("GPUs", "Spark")
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


_MACHINE_RULES = (
    Rule("/dev/shm", _shared),
    Rule("Temporary files", _scratch),
    Rule("Python's memory limit", _address_space),
    Rule("Open files", _open_files),
)


def _encryption_checks(findings: Findings) -> Iterator[Check]:
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


def _is_on(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(name, "").strip().lower() == "true"


_SETTINGS_RULES = (
    Rule("Speculation", _speculation, "Spark"),
    Rule("Retries", _retries, "Spark"),
    Rule("Silent Python workers", _idle_workers, "Spark"),
    Rule("Exclusion", _exclusion, "Spark"),
    Rule("Serializer", _serializer, "Spark"),
)

_RULES: tuple[Callable[[Findings], Iterator[Check]], ...] = (
    *(job_checks, *VERSION_RULES, _gpu_checks, *NETWORK_RULES, clock_checks, file_checks),
    *(*_MACHINE_RULES, *_SETTINGS_RULES, _encryption_checks),
)


def diagnose(findings: Findings) -> Diagnosis:
    return Diagnosis(tuple(check for rule in _RULES for check in rule(findings)))
