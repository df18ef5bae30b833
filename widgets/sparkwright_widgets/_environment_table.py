"""The environment of a notebook, for reproducing its results."""

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from ._block import Block, table_block

_PACKAGES = ("sparkwright", "keras", "tensorflow", "pyspark", "numpy", "pandas", "pyarrow")
_JAVA_TIMEOUT_S = 10


def environment_table() -> Block:
    """A table of the machine and the versions of Python, Java and packages; imports no package."""
    heads = ["What", "Version"]
    rows = environment_rows()
    return table_block(heads, rows, label="Environment", kind="environment", text_columns=(1,))


def environment_rows() -> list[tuple[str, str]]:
    """Name and version of each component."""
    return [
        ("Python", platform.python_version()),
        *((package, _version_of(package)) for package in _PACKAGES),
        ("Java", _java_version()),
        ("System", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("Processor cores", _cores()),
        ("Memory", _memory()),
    ]


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _java_version() -> str:
    """The version of `java` in JAVA_HOME or on the PATH; starts a process."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return "not found"
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "not found"
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else "unknown"


def _cores() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return str(usable)


def _memory() -> str:
    import psutil

    return f"{psutil.virtual_memory().total / 2**30:.1f} GiB"
