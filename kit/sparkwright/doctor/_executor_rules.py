"""Rules about versions, clocks, and executors' access to each other and to files. Pure."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from sparkwright.timeline.summary import seconds_text

from ._diagnosis import Check
from ._findings import Findings, Place
from ._notes import Note, Rule, fault, grouped, ok, unchecked, warning

# Clocks synchronized by NTP differ by a few milliseconds.
_CLOCK_WARNS_S = 0.1
# Kerberos rejects tickets if clocks differ by more.
_CLOCK_FAILS_S = 300.0
_CLOCK_STEP_S = 0.01
_MOST_PEERS_NAMED = 3

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


@dataclass(frozen=True, slots=True)
class _Rule:
    """Version requirements of a package."""

    fails: int = 2  # training fails if versions differ in so many first components; 0: never
    warns: int = 3  # likewise: training may fail
    least: tuple[int, ...] = ()  # minimum version
    needed: bool = True  # by executors
    exact: bool = False  # training fails for any difference
    why: str = ""  # consequence of a difference


PACKAGES = {
    "Python": _Rule(
        warns=2, least=(3, 11), why="PySpark refuses tasks of another Python than the driver's."
    ),
    "sparkwright": _Rule(exact=True, why="Driver and workers of a run speak one protocol."),
    "sparkwright's sources": _Rule(
        exact=True,
        needed=False,
        why="Code was changed on one side; `spark.stop()` and start again, or do not ship by hand.",
    ),
    "PySpark": _Rule(least=(3, 5), why="Driver and Python workers of PySpark speak one protocol."),
    "TensorFlow": _Rule(least=(2, 18), why="Workers would compute with different code."),
    "JAX": _Rule(least=(0, 7), why="Workers would compute with different code."),
    "Keras": _Rule(
        least=(3, 13, 2), why="A model written by one Keras may not be read by another."
    ),
    "NumPy": _Rule(fails=1, least=(1, 26), why="Pickled arrays may not be read."),
    "PyArrow": _Rule(fails=0, warns=1, least=(18,), why="Data travels as Arrow's bytes."),
    "pandas": _Rule(fails=0, warns=1, least=(2, 2), needed=False, why="DataFrames may be refused."),
    "Java": _Rule(fails=0, warns=1, needed=False, why="Driver and executors are one application."),
}
# PySpark's major and minor version -> its newest supported Python, and its supported Java versions,
# of the versions that the kit also supports.
_SUPPORTED: dict[tuple[int, ...], tuple[tuple[int, int], tuple[int, ...]]] = {
    (3, 5): ((3, 11), (17,)),
    (4, 0): ((3, 13), (17, 21)),
}
_SUPPORTED_SINCE = ((3, 13), (17, 21))
_NUMBER = re.compile(r"\d+")


def job_checks(findings: Findings) -> Iterator[Check]:
    """Check that the executors were examined."""
    if findings.spark_problem:
        remedy = "See what it says; `sparkwright.start_spark` gives the same."
        yield fault(findings.spark_problem, remedy).check("Spark", "Spark")
    spark = findings.spark
    if spark is None:
        if not findings.spark_problem:
            note = unchecked("no Spark session", "Call `sw.doctor(spark)`.")
            yield note.check("Executors", "Spark")
        return
    if findings.job_problem:
        yield _failed_job(findings.job_problem).check("Executors", "Spark")
    if not findings.executors:
        return
    seen = len(findings.executors)
    if spark.came is not None and spark.came < spark.tasks and not findings.job_problem:
        yield warning(
            f"{spark.came} of {spark.tasks} tasks ran at the same time, on {seen} executors",
            "A run needs all its workers at once. Other jobs may hold the slots, GPUs may be fewer "
            "than cores, or executors were still starting: look again.",
        ).check("Executors", "Spark")
    elif not findings.job_problem:
        note = ok(f"{seen} looked at, {spark.tasks} task slots")
        yield note.check("Executors", "Spark")


def _failed_job(problem: str) -> Note:
    """Explain a failed job by keywords in Spark's error message."""
    for words, remedy in _KNOWN_FAILURES.items():
        if words in problem:
            return fault(problem, remedy)
    return fault(problem, "Look into the executors' logs (stderr) in Spark's pages.")


def _version(name: str, rule: _Rule, place: Place, findings: Findings) -> Note | None:
    driver = findings.driver
    is_jax = driver.backend == "jax"
    if name == ("TensorFlow" if is_jax else "JAX"):
        return None
    version, wanted = place.versions.get(name), driver.versions.get(name)
    if version is None:
        if not rule.needed:
            return None
        remedy = f"Install {name} {wanted or ''}".rstrip() + " there, or ship an environment."
        return fault("is not installed", remedy)
    numbers = _numbers(version)
    if rule.least and numbers and numbers < rule.least:
        least = ".".join(map(str, rule.least))
        return fault(f"{version}; {least} is needed", f"Install {name} {least} or later.")
    if name in ("Python", "Java") and numbers and (remedy := _unsupported(name, numbers, place)):
        pyspark = place.versions.get("PySpark")
        return warning(f"PySpark {pyspark} does not support {name} {version}", remedy)
    if place is driver or wanted is None or version == wanted:
        return ok(version)
    found = f"{version}, but the driver has {wanted}"
    remedy = f"{rule.why} Install {wanted} there, or ship the driver's environment."
    theirs = _numbers(wanted)
    if rule.exact or numbers[: rule.fails] != theirs[: rule.fails]:
        return fault(found, remedy)
    if numbers[: rule.warns] != theirs[: rule.warns]:
        return warning(found, remedy)
    return ok(found)


def _unsupported(name: str, numbers: tuple[int, ...], place: Place) -> str:
    """Return the versions to install if PySpark does not support this Python or Java, else ""."""
    pyspark = _numbers(place.versions.get("PySpark") or "")[:2]
    python, javas = _SUPPORTED.get(pyspark, _SUPPORTED_SINCE)
    if name == "Java":
        return "" if numbers[0] in javas else f"Install Java {' or '.join(map(str, javas))}."
    newest = ".".join(map(str, python))
    return "" if numbers[:2] <= python else f"Use Python {newest}, or a newer PySpark."


def _backend(place: Place, findings: Findings) -> Iterator[Note]:
    """Check that workers can use the driver's backend."""
    backend = findings.driver.backend
    if place is findings.driver and backend not in ("", "tensorflow", "jax"):
        yield fault(
            f"KERAS_BACKEND={backend}",
            "Set KERAS_BACKEND to tensorflow or jax before Keras is imported.",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version)[:3])


def _driver_port(place: Place, findings: Findings) -> Iterator[Note]:
    problem = findings.port_problem
    if place is findings.driver and problem is not None:
        yield fault(problem, _OPEN) if problem else ok("a port could be opened")


def _to_driver(place: Place, _: Findings) -> Iterator[Note]:
    problem = place.driver_problem
    if problem is None:
        yield unchecked("the driver had no port open")
    elif not problem:
        yield ok("the driver's port was reached and its secret proved")
    elif "cannot be imported" in problem:
        yield fault(problem, "Install or ship what is missing: docs/shipping.md.")
    else:
        yield fault(
            problem,
            "Workers connect to the driver. Let it be reached: `spark.driver.host`, "
            "`MeshConfig(controller_address=…)` where the driver is behind a router, and a "
            "firewall that lets `MeshConfig(ports=…)` pass. Where that cannot be had, train with "
            '`communication="spark"`.',
        )


def _to_peers(place: Place, _: Findings) -> Iterator[Note]:
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


def clock_checks(findings: Findings) -> Iterator[Check]:
    """Check the offsets from the driver's clock; small offsets are combined in one row."""
    notes = [(place, _clock(place)) for place in findings.executors]
    rest = [(place, note) for place, note in notes if note is not None]
    yield from grouped("Clock", rest, findings)
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


def file_checks(findings: Findings) -> Iterator[Check]:
    """Check each of the given URLs."""
    urls = dict.fromkeys(url for place in findings.places for url in place.files)
    for url in urls:
        notes = [(p, _file(p.files[url])) for p in findings.places if url in p.files]
        yield from grouped(f"Files {url}", notes, findings)


def _file(problem: str) -> Note:
    if not problem:
        return ok("written, and read by the others")
    return fault(
        problem,
        "Use storage that all machines see at one place (hdfs://…, s3://…, a shared mount), and "
        "check the rights of the user that executors run as.",
    )


VERSION_RULES = (
    *(Rule(name, partial(_version, name, rule)) for name, rule in PACKAGES.items()),
    Rule("Keras' backend", _backend),
)
NETWORK_RULES = (
    Rule("Port of the driver", _driver_port),
    Rule("Driver reached", _to_driver, "executors"),
    Rule("Executors reached", _to_peers, "executors"),
)
