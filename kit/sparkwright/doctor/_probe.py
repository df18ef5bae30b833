"""The tasks of the doctor's job: attend the meeting, and examine the process and its machine.

Executors may lack packages that the kit needs, so functions import what needs them. TensorFlow is
not started; unknown values are None.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sparkwright.cluster.engine_archive import own_engine

# Name -> the module, or None; then alternative distributions, in order of preference.
_PACKAGES = {
    "PySpark": ("pyspark", "pyspark", "pyspark-client"),
    "TensorFlow": (
        *("tensorflow", "tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos"),
        "intel-tensorflow",
    ),
    "JAX": ("jax", "jax"),
    "Keras": ("keras", "keras", "keras-nightly"),
    "NumPy": ("numpy", "numpy"),
    "PyArrow": ("pyarrow", "pyarrow"),
    "pandas": ("pandas", "pandas"),
}
_COMMAND_S = 15.0
_HOLD_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The settings of the tasks, from the driver."""

    driver: tuple[str, int] | None  # the driver's address; None: no open port
    secret: bytes
    # Ports that executors may open, (0,) for any; or the name of an environment variable.
    ports: Sequence[int] | str
    network_mask: str | None
    connect_s: float
    wait_s: float  # timeout of the driver's answer, which waits for the other tasks
    clock: Callable[[], float] = time.time


def look(orders: Orders, task: int) -> dict[str, Any]:
    """Return one task's answer: `executor`, `label`, `place`, `samples`; or `executor` alone."""
    java = java_above()
    number, host = java.get("executor"), socket.gethostname()
    executor = f"{host}/{java.get('pid', os.getppid())}"
    label = f"executor {number} ({host})" if number else f"executor ({host})"
    answer: dict[str, Any] = {"executor": executor, "label": label}

    place = partial(_place, java)
    try:
        if orders.driver is None:
            time.sleep(_HOLD_S)  # prevents Spark from running several tasks in one slot
            answer["place"] = place()
        else:
            from ._meeting import attend

            # An executor's first task does the work. The others keep their slots busy meanwhile, so
            # that Spark starts the remaining tasks on other executors.
            answer.update(attend(orders, {**answer, "task": task}, place))
    except ImportError as error:
        time.sleep(_HOLD_S)
        answer["place"] = place(f"the kit cannot be imported: {error}")
    except (OSError, LookupError, TypeError, ValueError) as error:
        answer["place"] = place(str(error) or type(error).__name__)
    return answer


def _place(java: dict[str, Any], driver_problem: str | None = None) -> dict[str, Any]:
    found = examine(java)
    return {**found, "gpu_addresses": _gpu_addresses(), "driver_problem": driver_problem}


def _gpu_addresses() -> list[str]:
    """Return the addresses of the GPUs that Spark assigned to this task."""
    try:
        from pyspark import TaskContext
    except ImportError:
        return []
    context: Any = TaskContext.get()
    gpu = context.resources().get("gpu") if context is not None else None
    return list(gpu.addresses) if gpu is not None else []


def examine(java: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `Place` that need no other process, as JSON-serializable values."""
    gpus, gpu_problem = _gpus()
    return {
        "host": socket.gethostname(),
        "versions": {**versions(), **_kit(), "Java": java.get("version")},
        "backend": os.environ.get("KERAS_BACKEND", ""),
        "gpus": gpus,
        "gpu_problem": gpu_problem,
    }


def versions() -> dict[str, str | None]:
    """Return versions of Python and the kit's dependencies; None for missing packages."""
    found: dict[str, str | None] = {"Python": platform.python_version()}
    for name, (module, *distributions) in _PACKAGES.items():
        # The version of an imported module takes precedence over installed ones.
        loaded = getattr(sys.modules.get(module), "__version__", None)
        installed = (str(loaded) if loaded else _installed(each) for each in distributions)
        found[name] = next(filter(None, installed), None)
    return found


def _installed(distribution: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return None


def _kit() -> dict[str, str | None]:
    found: dict[str, Any] = {}
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        found = own_engine()
    return {
        "sparkwright": found.get("version") or None,
        "sparkwright's sources": found.get("fingerprint") or None,
    }


def java_above() -> dict[str, Any]:
    """Return process, version and executor ID of the Java process above this process."""
    pid = os.getpid()
    for _ in range(16):
        pid = _parent(pid)
        if pid <= 1:
            return {}
        process = Path("/proc", str(pid))
        try:
            executable = Path(os.readlink(process / "exe"))
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if executable.name == "java":
            _, _, after = command.partition("\0--executor-id\0")
            executor = after.partition("\0")[0] or None
            return {"pid": pid, "version": _java_version(executable), "executor": executor}
    return {}


def java_on_path() -> str | None:
    """Return the version of the Java that Spark would use."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return _java_version(Path(os.path.realpath(found))) if found else None


def _parent(pid: int) -> int:
    try:
        # The name in parentheses may contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1])
    except (OSError, IndexError, ValueError):
        return os.getppid() if pid == os.getpid() else 0


def _java_version(executable: Path) -> str | None:
    with contextlib.suppress(OSError):
        text = (executable.parent.parent / "release").read_text()
        if match := re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE):
            return match[1]
    answer, _ = _output_of([str(executable), "-version"])
    match = re.search(r'version "([^"]+)"', answer)
    return match[1] if match else None


def _gpus() -> tuple[list[str], str]:
    """Return the GPUs listed by nvidia-smi, and its error message if it failed."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], ""
    query = "--query-gpu=index,name,memory.total,driver_version"
    answer, problem = _output_of([program, query, "--format=csv,noheader"])
    if problem:
        return [], f"nvidia-smi failed: {problem}"
    return [line.strip() for line in answer.splitlines() if line.strip()], ""


def _output_of(command: list[str]) -> tuple[str, str]:
    """Return a command's output, and the reason for its failure, or ""."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer within {_COMMAND_S:g} s"
    except OSError as error:
        return "", str(error)
    said = (done.stdout + done.stderr).strip()
    return said, said[-300:] or f"exit code {done.returncode}" if done.returncode else ""
