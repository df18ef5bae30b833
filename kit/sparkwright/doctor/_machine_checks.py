"""Memory, disk, threads, GPUs, and what the system does to processes."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from sparkwright.spark._memory_parts import TRAINER_MIB, NetworkMemory, executor_parts
from sparkwright.spark._memory_size import mib_of_bytes
from sparkwright.spark._overhead import overhead_in_container

from ._diagnosis import Check
from ._findings import GIB, MIB, Findings, Note, Place, SparkFacts, grouped, size_text

_SMALL_NETWORK = NetworkMemory(trainer={}, driver_mib=0)
_LEAST_SHARED = 32 * MIB
_LEAST_SCRATCH = GIB
# TensorFlow reserves 2.2 GiB of addresses before it has any data.
_LEAST_ADDRESS_SPACE, _ROOMY_ADDRESS_SPACE = 4 * GIB, 16 * GIB
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)


def memory_checks(findings: Findings) -> Iterator[Check]:
    """Memory of containers and machines, /dev/shm, temporary files, address space."""
    yield from grouped("Memory", _memory(findings), findings)
    shared = [(place, _shared(place)) for place in findings.places]
    yield from grouped("/dev/shm", shared, findings)
    scratch = [(p, _scratch(p)) for p in findings.places if p.memory.scratch is not None]
    yield from grouped("Temporary files", scratch, findings)
    limited = [(p, note) for p in findings.places if (note := _address_space(p))]
    yield from grouped("Python's memory limit", limited, findings)
    few = [(p, note) for p in findings.places if (note := _open_files(p, findings))]
    yield from grouped("Open files", few, findings)


def thread_checks(findings: Findings) -> Iterator[Check]:
    """Threads against cores, and libraries that disagree about who makes them."""
    yield from grouped("Cores", _cores(findings), findings)
    notes = [(place, _threads(place)) for place in findings.places]
    yield from grouped("Threads", notes, findings)
    libraries = [(p, note) for p in findings.places for note in _libraries(p)]
    yield from grouped("Thread libraries", libraries, findings)


def gpu_checks(findings: Findings) -> Iterator[Check]:
    """GPUs that are there, and those that Spark gives to tasks."""
    wanted = findings.spark.gpus if findings.spark else 0
    if findings.spark and wanted and not findings.spark.gives_gpus:
        text = f"{wanted} an executor, of those that Spark starts when a network trains"
        yield Note("not checked", text).check("GPUs", "Spark")
        return
    # The driver needs none; what it has is of interest where it does the work.
    places = findings.executors or (findings.driver,)
    yield from grouped("GPUs", [(place, _gpus(place, wanted)) for place in places], findings)


def logind_checks(findings: Findings) -> Iterator[Check]:
    """Whether executors end when somebody logs out."""
    notes = [(place, _logind(place)) for place in findings.places]
    yield from grouped("Processes after logout", notes, findings)


def _memory(findings: Findings) -> Iterator[tuple[Place, Note]]:
    yield findings.driver, _driver_memory(findings.driver)
    if findings.spark is None:
        return
    by_host = sorted(findings.executors, key=lambda place: place.host)
    for _, group in groupby(by_host, key=lambda place: place.host):
        together = list(group)
        for place in together:
            yield place, _executor_memory(place, together, findings.spark)


def _driver_memory(driver: Place) -> Note:
    memory = driver.memory
    room = _room(driver)
    if room is None:
        return Note("not checked", "this system does not tell its memory")
    found = _room_text(driver)
    if memory.heap is not None and memory.heap + TRAINER_MIB * MIB > room:
        remedy = (
            "The model lives in Python, beside Java. Lower `spark.driver.memory`, or give the "
            "driver a larger machine or container."
        )
        return Note("warning", f"{found}; Java's heap alone may take {_heap(driver)}", remedy)
    return Note("ok", found)


def _executor_memory(place: Place, together: Sequence[Place], spark: SparkFacts) -> Note:
    room, heap = _room(place), place.memory.heap
    if room is None or heap is None:
        return Note("not checked", "this system does not tell its memory")
    slots, heap_mib = _slots(spark), mib_of_bytes(heap)
    parts = executor_parts(_SMALL_NETWORK, heap_mib=heap_mib, trainers=slots, data_mib=0)
    outside_mib = sum(part.size_mib for part in parts if part.place != "heap")
    outside = MIB * outside_mib
    overhead_mib = overhead_in_container(spark.master, spark.settings, heap_mib=heap_mib)
    needs = f"{slots} worker{'s' * (slots > 1)} with TensorFlow"
    if overhead_mib is not None and overhead_mib < outside_mib:
        return Note(
            "problem",
            f"{needs} and a small network need about {size_text(outside)} outside Java's heap; the "
            f"container has {size_text(MIB * overhead_mib)} for that",
            f"Set `spark.executor.memoryOverhead` to {outside_mib}m or more (`sw.plan_memory` "
            "computes it for your network): a container that takes more than it has is killed.",
        )
    # Those of one machine share it, unless each has a container of its own.
    shares = 1 if place.memory.limit is not None and overhead_mib is not None else len(together)
    total = shares * (heap + outside)
    text = f"{_room_text(place)}; Java's heap {_heap(place)}, beside it about {size_text(outside)}"
    text += f" with {needs}"
    if shares > 1:
        text += f", times {shares} executors on this machine"
    if total > room:
        return Note(
            "warning",
            f"{text}: {size_text(total)} in all",
            "Give executors less heap (`memory_per_worker_mb=`, `spark.executor.memory`), or start "
            "fewer of them on a machine.",
        )
    return Note("ok", text)


def _slots(spark: SparkFacts) -> int:
    """Tasks of one executor that can train at a time: each has a GPU if executors have any."""
    cpus = int(spark.settings.get("spark.task.cpus", "1") or 1)
    cores = spark.settings.get("spark.executor.cores")
    slots = int(cores) // cpus if cores else spark.tasks // max(1, spark.executors or 1)
    return max(1, min(slots, spark.gpus or slots))


def _room(place: Place) -> int | None:
    sizes = [size for size in (place.memory.total, place.memory.limit) if size is not None]
    return min(sizes) if sizes else None


def _room_text(place: Place) -> str:
    memory = place.memory
    if memory.limit is not None:
        return f"{size_text(memory.limit)} in this container"
    return f"{size_text(memory.total or 0)} in this machine"


def _heap(place: Place) -> str:
    return size_text(place.memory.heap or 0)


def _shared(place: Place) -> Note:
    memory = place.memory
    if memory.shared is None:
        return Note("not checked", "there is none")
    if not memory.shared_writable:
        remedy = "Locks between processes live there: mount it with mode 1777."
        return Note("warning", "cannot be written to", remedy)
    gpus = len(place.gpus)
    if memory.shared < _LEAST_SHARED or (gpus > 1 and memory.shared < GIB):
        remedy = "Give the container more: `--shm-size=1g`, or a memory volume on Kubernetes."
        return Note("warning", f"only {size_text(memory.shared)}", remedy)
    return Note("ok", size_text(memory.shared))


def _scratch(place: Place) -> Note:
    memory = place.memory
    free = memory.scratch or 0
    if free < _LEAST_SCRATCH:
        return Note(
            "warning",
            f"{size_text(free)} free in {memory.scratch_folder}",
            "Workers keep their part of the data there: free some, or set `spark.local.dir` (on "
            "YARN the administrator's `yarn.nodemanager.local-dirs`).",
        )
    # Not the path and not the exact size: they differ from place to place.
    return Note("ok", "1 GiB or more free")


def _address_space(place: Place) -> Note | None:
    limit = place.memory.address_space
    if limit is None:
        return None
    if limit < _ROOMY_ADDRESS_SPACE:
        return Note(
            "problem" if limit < _LEAST_ADDRESS_SPACE else "warning",
            f"a process may map {size_text(limit)}",
            "TensorFlow maps 2.2 GiB before it has any data, far more than it uses. Leave "
            "`spark.executor.pyspark.memory` out, or lift the limit (`ulimit -v unlimited`); "
            "containers limit what is really used.",
        )
    return Note("ok", f"a process may map {size_text(limit)}")


def _open_files(place: Place, findings: Findings) -> Note | None:
    tasks = findings.spark.tasks if findings.spark else 1
    # A connection to each worker, and those that are not ours.
    needed = 256 + 2 * tasks
    if place.open_files is None or place.open_files >= needed:
        return None
    return Note(
        "warning",
        f"at most {place.open_files}",
        f"Raise it for {tasks} workers: `ulimit -n {max(4096, needed)}` before Spark starts.",
    )


def _cores(findings: Findings) -> Iterator[tuple[Place, Note]]:
    driver = findings.driver
    if findings.spark is None:
        yield driver, Note("ok", f"{driver.cores or 'unknown'}")
        return
    slots = _slots(findings.spark)
    cpus = int(findings.spark.settings.get("spark.task.cpus", "1") or 1)
    by_host = sorted(findings.executors, key=lambda place: place.host)
    for _, group in groupby(by_host, key=lambda place: place.host):
        together = list(group)
        for place in together:
            busy = len(together) * slots * cpus
            if place.cores is None or busy <= place.cores:
                yield place, Note("ok", f"{place.cores or 'unknown'}, of which Spark uses {busy}")
                continue
            remedy = (
                "Workers would wait for each other's cores. Start fewer: `workers=`, "
                "`spark.executor.cores`, or `SPARK_WORKER_CORES` of a standalone cluster."
            )
            yield place, Note("warning", f"{place.cores}, but Spark promises {busy}", remedy)


def _threads(place: Place) -> Note:
    found = {
        name: place.environment[name] for name in _THREAD_VARIABLES if name in place.environment
    }
    text = ", ".join(f"{name}={value}" for name, value in found.items())
    wrong = [name for name, value in found.items() if not _is_count(value)]
    if wrong:
        remedy = f"Give a number of threads, or unset {', '.join(wrong)}."
        return Note("warning", text, remedy)
    many = [
        name
        for name, value in found.items()
        if place.cores and max(map(int, value.split(","))) > place.cores
    ]
    if many:
        return Note(
            "warning",
            f"{text}; there are {place.cores} cores",
            f"Lower or unset {', '.join(many)}. Workers take `spark.task.cpus` threads each, "
            "whatever these say; NumPy and your own functions obey them.",
        )
    return Note("ok", text or "no variable limits them")


def _is_count(value: str) -> bool:
    # OpenMP takes a list, one number a level; MKL and OpenMP take 0 for "as you like".
    return all(part.strip().isdigit() for part in value.split(","))


def _libraries(place: Place) -> Iterator[Note]:
    if place.preloads_missing:
        missing = ", ".join(place.preloads_missing)
        yield Note(
            "warning",
            f"LD_PRELOAD names what is not there: {missing}",
            "Install it (libgomp: `apt-get install libgomp1`, `yum install libgomp`), or name its "
            "path on this machine.",
        )
    layer = place.environment.get("MKL_THREADING_LAYER", "").upper()
    has_gomp = "libgomp" in place.environment.get("LD_PRELOAD", "")
    has_mkl = place.versions.get("MKL") is not None
    if has_gomp and (layer == "INTEL" or (has_mkl and not layer)):
        yield Note(
            "warning",
            f"libgomp is loaded first, MKL_THREADING_LAYER is {layer or 'not set'}",
            "MKL stops a process that holds another OpenMP: set MKL_THREADING_LAYER=GNU, also for "
            "executors (`spark.executorEnv.MKL_THREADING_LAYER=GNU`).",
        )


def _gpus(place: Place, wanted: int) -> Note:
    found = "; ".join(place.gpus)
    if place.gpu_problem:
        return Note(
            "problem" if wanted else "warning",
            place.gpu_problem,
            "Check the driver: `nvidia-smi` must list the GPUs of this machine.",
        )
    if wanted and not place.gpu_addresses:
        return Note(
            "problem",
            f"Spark was asked for {wanted} an executor and gave the task none",
            "Set `spark.task.resource.gpu.amount` and the discovery script.",
        )
    if wanted and len(place.gpus) < wanted:
        return Note(
            "problem",
            f"Spark gave address {', '.join(place.gpu_addresses)}; nvidia-smi lists "
            f"{len(place.gpus)} of {wanted}",
            "Check the discovery script, and that containers are given the devices.",
        )
    if wanted:
        return Note("ok", f"{wanted} an executor: {found}")
    if place.gpus:
        return Note(
            "warning",
            f"not used: {found}",
            "Start Spark with `gpus_per_executor=` to train on them.",
        )
    return Note("ok", "none, and none asked for")


def _logind(place: Place) -> Note:
    logind = place.logind
    if logind is None:
        return Note("ok", "stay: no systemd here")
    if logind.kills is None:
        return Note("not checked", "logind's KillUserProcesses could not be read")
    if not logind.kills:
        return Note("ok", "stay: logind does not end them")
    if logind.lingers:
        return Note("ok", f"stay: {logind.user} lingers")
    return Note(
        "warning",
        f"logind ends those of {logind.user} (KillUserProcesses=yes)",
        f"Run `sudo loginctl enable-linger {logind.user}` on each machine, or set "
        "KillUserProcesses=no in /etc/systemd/logind.conf.",
    )
