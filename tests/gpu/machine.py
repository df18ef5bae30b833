"""What this machine has: GPUs, packages, Java; and which checks that allows. Standard library only."""

import importlib.util
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_QUERY = ("index", "uuid", "name", "memory.total", "driver_version")
_FULL = ("tensorflow", "keras", "pyspark")
_PACKAGES = ("keras", "tensorflow", "jax", "jax-cuda13-plugin", "jax-cuda12-plugin", "numpy")


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One machine, as the checks need to know it.

    Attributes:
        tier: "full": TensorFlow, PySpark and Java are there; "bare": only what `ParallelWrapper`
            needs.
        backend: of Keras in all checks; "" if no backend is there.
        gpus: what nvidia-smi prints of each.
        problem: why there is no GPU; "" if there is one.
        lacks: what the full tier needs and this machine has not.
    """

    tier: str
    backend: str
    gpus: tuple[dict[str, str], ...]
    problem: str
    lacks: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The tier, and what is skipped because of it."""
        backend = {"tensorflow": "TensorFlow", "jax": "JAX"}.get(self.backend, "no backend")
        found = f"The {self.tier} tier, Keras on {backend}."
        if self.tier == "full":
            return found
        why = f"{' and '.join(self.lacks)} not there" if self.lacks else "asked for with --tier"
        return f"{found} Skipped are Spark and XLA by choice: {why}."

    def facts(self) -> dict[str, Any]:
        """JSON-able, for the report."""
        return {
            "tier": self.tier,
            "backend": self.backend,
            "sentence": self.sentence,
            "gpus": list(self.gpus),
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "versions": {name: found for name in _PACKAGES if (found := version_of(name))},
        }


def look(*, tier: str | None = None) -> Machine:
    """Look at this machine; `tier` chooses one instead of what is there."""
    gpus, problem = nvidia_gpus()
    lacks = [name for name in _FULL if not has(name)]
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        lacks.append("Java")
    found = tier or ("bare" if lacks else "full")
    there = [name for name in ("tensorflow", "jax") if has("keras") and has(name)]
    order = there if found == "full" else there[::-1]
    wanted = os.environ.get("KERAS_BACKEND", "")
    backend = wanted if wanted in there else next(iter(order), "")
    return Machine(
        tier=found, backend=backend, gpus=tuple(gpus), problem=problem, lacks=tuple(lacks)
    )


def nvidia_gpus() -> tuple[list[dict[str, str]], str]:
    """What nvidia-smi prints of each GPU, and why there is none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return [], "nvidia-smi is not on the PATH"
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi: {error}"
    if done.returncode:
        return [], f"nvidia-smi: {(done.stdout + done.stderr).strip()[:200]}"
    rows = [line.split(", ") for line in done.stdout.splitlines() if line.strip()]
    found = [dict(zip(_QUERY, row, strict=False)) for row in rows]
    return found, "" if found else "nvidia-smi lists none"


def has(package: str) -> bool:
    """Whether it can be imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # sys.modules has None for it
        return False


def version_of(distribution: str) -> str:
    """Its version; "" if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
