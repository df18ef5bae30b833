"""Examine a process and its machine, without starting TensorFlow; unknown values are None.

Executors may lack the packages that the kit needs, so the module imports none of them.
"""

import contextlib
import importlib.metadata
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
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


def examine(java: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `Place` that need no other process, as JSON-serializable values."""
    gpus, gpu_problem = _gpus()
    return {
        "host": socket.gethostname(),
        "versions": {**versions(), **_kit(), "Java": java.get("version")},
        "backend": os.environ.get("KERAS_BACKEND", ""),
        "gpus": gpus,
        "gpu_problem": gpu_problem,
        **_room(),
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


def _room() -> dict[str, Any]:
    shared, writable = "/dev/shm", False
    folder, size, free = scratch_folder(), None, None
    open_files_used = 0
    with contextlib.suppress(OSError):
        open_files_used = len(os.listdir("/proc/self/fd"))
    with contextlib.suppress(OSError):
        stat = os.statvfs(shared)
        size, writable = stat.f_blocks * stat.f_frsize, os.access(shared, os.W_OK)
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(folder).free
    return {
        "open_files": _limit(resource.RLIMIT_NOFILE),
        "open_files_used": open_files_used,
        "address_space": _limit(resource.RLIMIT_AS),
        "shared": size,
        "shared_writable": writable,
        "scratch": free,
        "scratch_folder": folder,
    }


def _limit(resource_number: int) -> int | None:
    limit = resource.getrlimit(resource_number)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def scratch_folder() -> str:
    """Return the folder of the workers' data."""
    for variable in ("LOCAL_DIRS", "SPARK_LOCAL_DIRS"):
        folder = os.environ.get(variable, "").split(",")[0]
        if folder and os.access(folder, os.W_OK):
            return folder
    # Python's function skips a full one when it is first called.
    return os.environ.get("TMPDIR") or tempfile.gettempdir()
