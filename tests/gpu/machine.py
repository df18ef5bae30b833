"""What this machine has, and which checks that allows; standard library only."""

import importlib.util
import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

_QUERY = ("index", "uuid", "name", "memory.total", "driver_version")
_PACKAGES = ("keras", "tensorflow", "jax", "jax-cuda13-plugin", "jax-cuda12-plugin", "numpy")


def look(tier=None):
    """Facts for the report.

    "tier" is "full" where TensorFlow, PySpark and Java are there, else "bare"; "backend" is Keras'
    in all checks, or ""; "problem" says why there is no GPU; "sentence" what is skipped.
    """
    gpus, problem = nvidia_gpus()
    lacks = [name for name in ("tensorflow", "keras", "pyspark") if not _has(name)]
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        lacks.append("Java")
    tier = tier or ("bare" if lacks else "full")
    there = [name for name in ("jax", "tensorflow") if _has("keras") and _has(name)]
    wanted = os.environ.get("KERAS_BACKEND", "")
    first = there[-1:] if tier == "full" else there[:1]
    backend = wanted if wanted in there else "".join(first)
    sentence = f"The {tier} tier, Keras on {backend or 'no backend'}."
    if tier == "bare":
        why = f"{', '.join(lacks)} not there" if lacks else "--tier asks for it"
        sentence += f" Spark and the choice of XLA are skipped: {why}."
    versions = {name: found for name in _PACKAGES if (found := version_of(name))}
    return {
        **{"tier": tier, "backend": backend, "gpus": gpus, "problem": problem},
        **{"sentence": sentence, "platform": platform.platform(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **versions},
    }


def nvidia_gpus():
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


def version_of(distribution):
    """Its version; "" if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _has(package):
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # sys.modules has None for it
        return False
