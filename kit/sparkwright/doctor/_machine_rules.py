"""Rules about folders, limits and GPUs. Pure."""

from collections.abc import Iterator

from sparkwright.timeline.summary import size_text

from ._diagnosis import Check
from ._findings import GIB, MIB, Findings, Place
from ._notes import Note, Rule, fault, grouped, ok, unchecked, warning

_LEAST_SHARED = 32 * MIB
_LEAST_SCRATCH = GIB
# TensorFlow reserves 2.2 GiB of virtual memory without any data.
_LEAST_ADDRESS_SPACE, _ROOMY_ADDRESS_SPACE = 4 * GIB, 16 * GIB


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


def gpu_checks(findings: Findings) -> Iterator[Check]:
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


MACHINE_RULES = (
    Rule("/dev/shm", _shared),
    Rule("Temporary files", _scratch),
    Rule("Python's memory limit", _address_space),
    Rule("Open files", _open_files),
)
