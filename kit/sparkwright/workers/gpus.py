"""Discovery of this machine's GPUs, and binding a process to one of them."""

import importlib.resources
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.networks.backend import backend_name

# Fake GPU addresses in tests, separated by spaces; see `testing.fake_gpus`.
FAKE_VARIABLE = "SPARKWRIGHT_FAKE_GPUS"
# "1" if the user allows training on CPUs when a GPU is unusable.
FALLBACK_VARIABLE = "SPARKWRIGHT_CPU_FALLBACK"
# Number of GPUs that an executor claims; read by the script.
CLAIM_VARIABLE = "SPARKWRIGHT_GPUS_PER_EXECUTOR"

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PLATFORMS = "JAX_PLATFORMS"
_SCRIPT_TIMEOUT_S = 60.0
_log = logging.getLogger(__name__)
# CUDA_VISIBLE_DEVICES before `leave_gpus_to_workers` changed it.
_users_choice: list[str | None] = []


def device_environment(device: str) -> dict[str, str]:
    """Return environment variables for a process on `device`; backends read them only once.

    Example:
        >>> device_environment("gpu-3")["CUDA_VISIBLE_DEVICES"]
        '3'
        >>> device_environment("cpu")
        {'CUDA_VISIBLE_DEVICES': '-1', 'JAX_PLATFORMS': 'cpu'}
    """
    kind, _, address = device.partition("-")
    if kind != "gpu":
        return {_VISIBLE: "-1", _PLATFORMS: "cpu"}
    # Use the numbering of nvidia-smi; by default CUDA numbers the fastest GPU first.
    numbers = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", _VISIBLE: address}
    # An empty JAX_PLATFORMS overrides the driver's "cpu" and selects the best platform. By default
    # JAX preallocates three quarters of the GPU's memory.
    return {**numbers, _PLATFORMS: "", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def script_text() -> str:
    """Return Sparkwright's GPU discovery script, for `sh`."""
    return (importlib.resources.files(__package__ or "") / "discover_gpus.sh").read_text()


def find_gpus(script: str | Path | None = None) -> tuple[str, ...]:
    """Return the addresses of this machine's GPUs, restricted by CUDA_VISIBLE_DEVICES."""
    name = "the kit's script, on nvidia-smi" if script is None else str(script)
    try:
        found = addresses_in(_output_of(script))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip()
        raise ConfigurationError(
            f"{name} must list the GPUs of this machine. Received: {said}. Install the NVIDIA "
            "driver, pass another script, or use CPUs."
        ) from None
    return found if os.environ.get(FAKE_VARIABLE) else _visible(found)


def _output_of(script: str | Path | None) -> str:
    command = [str(script)] if script is not None else ["sh", "-c", script_text()]
    # Only list the GPUs, without claiming any.
    environment = {key: value for key, value in os.environ.items() if key != CLAIM_VARIABLE}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=_SCRIPT_TIMEOUT_S,
        env=environment,
    )
    return done.stdout


def addresses_in(text: str) -> tuple[str, ...]:
    """Parse the output of a discovery script into addresses.

    Example:
        >>> addresses_in('{"name": "gpu", "addresses": ["0", "1"]}')
        ('0', '1')
    """
    try:
        found: Any = json.loads(text)
        addresses = found["addresses"]
    except (ValueError, KeyError, TypeError):
        addresses = None
    if not isinstance(addresses, list) or not all(isinstance(each, str) for each in addresses):
        raise ValueError(f"invalid JSON list of addresses: {text[:200]!r}")
    return tuple(addresses)


def leave_gpus_to_workers() -> None:
    """Keep TensorFlow or JAX of this process on the CPU, so that workers get the GPU memory.

    Call it before building the first model. `start_spark` calls it if it starts executors with
    GPUs on this machine. The previous CUDA_VISIBLE_DEVICES determines the GPUs of the workers.
    """
    if os.environ.get(FAKE_VARIABLE):
        return
    tensorflow: Any = sys.modules.get("tensorflow")
    jax: Any = sys.modules.get("jax")
    if tensorflow is None:
        if not _users_choice:
            _users_choice.append(os.environ.get(_VISIBLE))
        os.environ.update(device_environment("cpu"))
    name = "TensorFlow" if tensorflow is not None else "JAX"
    try:
        if tensorflow is not None:
            tensorflow.config.set_visible_devices([], "GPU")
        if jax is not None:
            _keep_jax_on_cpu(jax)
    except RuntimeError:
        _log.warning(
            "%s in this process already uses a GPU and may hold all its memory, so that workers "
            "may run out of memory. Start Spark, or call "
            "`sparkwright.leave_gpus_to_workers()`, before building the first model.",
            name,
        )


def _keep_jax_on_cpu(jax: Any) -> None:
    """Restrict JAX to the CPU; raise RuntimeError if it already uses another platform."""
    jax.config.update("jax_platforms", "cpu")
    if jax.default_backend() != "cpu":
        raise RuntimeError


def ready_device(device: str) -> tuple[str, ConfigurationError | None]:
    """Prepare the backend, just imported for `device`; return (description, error or None)."""
    kind, _, address = device.partition("-")
    gpu, backend = _jax_gpu() if backend_name() == "jax" else _tensorflow_gpu()
    if kind != "gpu":
        return kind.upper(), None
    if gpu is not None:
        return (f"GPU {address} ({gpu})" if gpu else f"GPU {address}"), None
    if os.environ.get(FAKE_VARIABLE):
        return f"GPU {address} (fake)", None
    if os.environ.get(FALLBACK_VARIABLE) == "1":
        return f"CPU (GPU {address} cannot be used)", None
    return f"GPU {address}", ConfigurationError(
        f"a worker must compute on its assigned GPU. Received: GPU {address}, and a "
        f"{backend} and a matching driver on every machine. Or use CPUs: "
        "`gpus_per_executor=0`, or `cpu_fallback=True` to fall back."
    )


def _tensorflow_gpu() -> tuple[str | None, str]:
    """Return (name of the GPU, "") or (None, description of TensorFlow for the error)."""
    import tensorflow as tf

    gpus: Sequence[Any] = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        return tf.config.experimental.get_device_details(gpus[0]).get("device_name", ""), ""
    without = "" if tf.test.is_built_with_cuda() else " (it was built without CUDA)"
    said = f"TensorFlow {tf.__version__} that sees no GPU{without}. Install `tensorflow[and-cuda]`"
    return None, said


def _jax_gpu() -> tuple[str | None, str]:
    """Return the same for JAX as `_tensorflow_gpu`."""
    import jax  # pyright: ignore[reportMissingImports]

    if jax.default_backend() == "gpu":
        return str(jax.devices()[0].device_kind), ""
    return None, f"JAX {jax.__version__} that sees no GPU. Install `jax[cuda13]` or `jax[cuda12]`"


def _visible(found: tuple[str, ...]) -> tuple[str, ...]:
    """Filter addresses by the user's CUDA_VISIBLE_DEVICES."""
    choice = _users_choice[0] if _users_choice else os.environ.get(_VISIBLE)
    if choice is None:
        return found
    chosen = [each.strip() for each in choice.split(",") if each.strip()]
    if all(each.lstrip("-").isdigit() for each in chosen):
        return tuple(address for address in found if address in chosen)
    return tuple(chosen)  # UUIDs, which CUDA accepts in place of numbers
