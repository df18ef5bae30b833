"""Versions of everything, on the driver and everywhere else."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._diagnosis import Check
from ._findings import Findings, Note, Place, grouped


@dataclass(frozen=True, slots=True)
class _Rule:
    """How alike two versions must be.

    Attributes:
        fails: if they differ in one of the first so many numbers, training fails; 0: it does not.
        warns: if they differ in one of so many, it may.
        least: the oldest that serves.
        needed: whether executors need it.
        exact: whether any difference fails.
        why: what comes of a difference.
    """

    fails: int = 2
    warns: int = 3
    least: tuple[int, ...] = ()
    needed: bool = True
    exact: bool = False
    why: str = ""


RULES = {
    "Python": _Rule(
        warns=2, least=(3, 11), why="PySpark refuses tasks of another Python than the driver's."
    ),
    "sparkwright": _Rule(exact=True, why="Driver and workers of a run speak one protocol."),
    "sparkwright's sources": _Rule(
        exact=True,
        needed=False,
        why="Code was changed on one side; `spark.stop()` and start again, or do not ship by hand.",
    ),
    "PySpark": _Rule(least=(4, 1), why="Driver and Python workers of PySpark speak one protocol."),
    "TensorFlow": _Rule(least=(2, 18), why="Workers would compute with different code."),
    "Keras": _Rule(
        least=(3, 13, 2), why="A model written by one Keras may not be read by another."
    ),
    "NumPy": _Rule(fails=1, least=(1, 26), why="Pickled arrays may not be read."),
    "PyArrow": _Rule(fails=0, warns=1, least=(18,), why="Data travels as Arrow's bytes."),
    "pandas": _Rule(fails=0, warns=1, least=(2, 2), needed=False, why="DataFrames may be refused."),
    "Java": _Rule(fails=0, warns=1, needed=False, why="Driver and executors are one application."),
}
_TESTED_JAVAS = (17, 21)
_NUMBER = re.compile(r"\d+")


def version_checks(findings: Findings) -> Iterator[Check]:
    """One row for each package if all agree, else one for each version."""
    for name, rule in RULES.items():
        notes = [(place, _note(name, rule, place, findings.driver)) for place in findings.places]
        yield from grouped(name, [(place, note) for place, note in notes if note], findings)
    yield from _backend(findings)


def _note(name: str, rule: _Rule, place: Place, driver: Place) -> Note | None:
    version, wanted = place.versions.get(name), driver.versions.get(name)
    if version is None:
        if not rule.needed:
            return None
        remedy = f"Install {name} {wanted or ''}".rstrip() + " there, or ship an environment."
        return Note("problem", "is not installed", remedy)
    numbers = _numbers(version)
    if rule.least and numbers and numbers < rule.least:
        least = ".".join(map(str, rule.least))
        return Note("problem", f"{version}; {least} is needed", f"Install {name} {least} or later.")
    if name == "Java" and numbers and numbers[0] not in _TESTED_JAVAS:
        return Note("warning", f"{version} was not tried", "Install Java 17 or 21.")
    if place is driver or wanted is None or version == wanted:
        return Note("ok", version)
    found = f"{version}, but the driver has {wanted}"
    remedy = f"{rule.why} Install {wanted} there, or ship the driver's environment."
    theirs = _numbers(wanted)
    if rule.exact or numbers[: rule.fails] != theirs[: rule.fails]:
        return Note("problem", found, remedy)
    if numbers[: rule.warns] != theirs[: rule.warns]:
        return Note("warning", found, remedy)
    return Note("ok", found)


def _backend(findings: Findings) -> Iterator[Check]:
    """Models are made on the driver; workers choose TensorFlow by themselves."""
    backend = findings.driver.environment.get("KERAS_BACKEND", "")
    if backend not in ("", "tensorflow"):
        note = Note(
            "problem",
            f"KERAS_BACKEND={backend}",
            "Workers train with TensorFlow. Set KERAS_BACKEND=tensorflow before Keras is imported.",
        )
        yield from grouped("Keras' backend", [(findings.driver, note)], findings)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version)[:3])
