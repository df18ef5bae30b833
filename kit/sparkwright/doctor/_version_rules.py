"""Rules about versions of packages on driver and executors. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._diagnosis import Check
from ._findings import Findings, Note, Place, fault, grouped, ok, warning


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


def version_checks(findings: Findings) -> Iterator[Check]:
    """Check the versions of each package, and that workers can use the driver's backend."""
    backend = findings.driver.backend
    unused = "TensorFlow" if backend == "jax" else "JAX"
    for name, rule in PACKAGES.items():
        if name != unused:
            notes = (
                (each, _version(name, rule, each, findings.driver)) for each in findings.places
            )
            yield from grouped(name, notes, findings)
    if backend not in ("", "tensorflow", "jax"):
        remedy = "Set KERAS_BACKEND to tensorflow or jax before Keras is imported."
        yield fault(f"KERAS_BACKEND={backend}", remedy).check("Keras' backend", "driver")


def _version(name: str, rule: _Rule, place: Place, driver: Place) -> Note | None:
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


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version)[:3])
