"""The GPUs of this machine, and what makes a process compute on exactly one of them."""

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

# Addresses that a test pretends there are, separated by spaces; see `testing.fake_gpus`.
FAKE_VARIABLE = "SPARKWRIGHT_FAKE_GPUS"
# "1" where the user has chosen to train on CPUs rather than not at all.
FALLBACK_VARIABLE = "SPARKWRIGHT_CPU_FALLBACK"
# How many GPUs an executor claims, for the script.
CLAIM_VARIABLE = "SPARKWRIGHT_GPUS_PER_EXECUTOR"

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PLATFORMS = "JAX_PLATFORMS"
_SCRIPT_TIMEOUT_S = 60.0
_log = logging.getLogger(__name__)
# What the user had chosen before this process was told to leave the GPUs alone.
_users_choice: list[str | None] = []


def device_environment(device: str) -> dict[str, str]:
    """What a process that computes on `device` must be born with: backends look only once.

    Args:
        device: "cpu", or "gpu-ADDRESS".

    Example:
        >>> device_environment("gpu-3")["CUDA_VISIBLE_DEVICES"]
        '3'
        >>> device_environment("cpu")
        {'CUDA_VISIBLE_DEVICES': '-1', 'JAX_PLATFORMS': 'cpu'}
    """
    kind, _, address = device.partition("-")
    if kind != "gpu":
        return {_VISIBLE: "-1", _PLATFORMS: "cpu"}
    # Numbers as nvidia-smi gives them out; CUDA by itself counts from the quickest GPU.
    numbers = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", _VISIBLE: address}
    # The driver's JAX may be kept on the CPU, which its environment says; empty means the best
    # platform there is. JAX would take three quarters of the GPU's memory at once.
    return {**numbers, _PLATFORMS: "", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def script_text() -> str:
    """The discovery script that comes with the kit, for `sh`."""
    return (importlib.resources.files(__package__ or "") / "discover_gpus.sh").read_text()


def find_gpus(script: str | Path | None = None) -> tuple[str, ...]:
    """Addresses of the GPUs of this machine that the user has not hidden by CUDA_VISIBLE_DEVICES.

    Args:
        script: a discovery script as Spark takes it; default None: the kit's, on nvidia-smi.

    Raises:
        ConfigurationError: if the script fails or prints something else; with what it said.
    """
    name = "the kit's script, on nvidia-smi" if script is None else str(script)
    try:
        found = addresses_in(_output_of(script))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip()
        raise ConfigurationError(
            f"GPUs of this machine must be found by {name}. Received: {said}. Install the NVIDIA "
            "driver, name a script of your own, or choose CPUs."
        ) from None
    return found if os.environ.get(FAKE_VARIABLE) else _visible(found)


def _output_of(script: str | Path | None) -> str:
    command = [str(script)] if script is not None else ["sh", "-c", script_text()]
    # Nothing is claimed here: this process only wants to know.
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
    """The addresses in what a discovery script printed.

    Raises:
        ValueError: if it is no such text.

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
        raise ValueError(f"no JSON with a list of addresses: {text[:200]!r}")
    return tuple(addresses)


def leave_gpus_to_workers() -> None:
    """Keep TensorFlow or JAX of this process on the CPU: it would take most of a GPU's memory.

    To be called before the first model is built. `start_spark` does so itself where it starts
    executors with GPUs on this machine; what CUDA_VISIBLE_DEVICES was before says which GPUs the
    workers may have.
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
            "the %s of this process has begun to use a GPU, and may hold all its memory; "
            "workers may not find enough. Start Spark, or call "
            "`sparkwright.leave_gpus_to_workers()`, before the first model is built.",
            name,
        )


def _keep_jax_on_cpu(jax: Any) -> None:
    """Raises RuntimeError if it has begun to use something else."""
    jax.config.update("jax_platforms", "cpu")
    if jax.default_backend() != "cpu":
        raise RuntimeError


def ready_device(device: str) -> tuple[str, ConfigurationError | None]:
    """Make Keras' backend, just imported in a process born for `device`, ready to compute on it.

    Returns:
        What a reader is told of the device: "CPU", or a GPU's address and, if known, its name; and
        why nothing may be computed here, or None.
    """
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
        f"a worker must compute on the GPU that it was given. Received: GPU {address}, and a "
        f"{backend} and a driver that fits on every machine, or choose CPUs: "
        "`gpus_per_executor=0`, or `cpu_fallback=True` to go on without."
    )


def _tensorflow_gpu() -> tuple[str | None, str]:
    """The name of the GPU, None if there is none; and in that case what to say of TensorFlow."""
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
    """As `_tensorflow_gpu`, of JAX."""
    import jax  # pyright: ignore[reportMissingImports]

    if jax.default_backend() == "gpu":
        return str(jax.devices()[0].device_kind), ""
    return None, f"JAX {jax.__version__} that sees no GPU. Install `jax[cuda13]` or `jax[cuda12]`"


def _visible(found: tuple[str, ...]) -> tuple[str, ...]:
    """Those that the user's CUDA_VISIBLE_DEVICES leaves."""
    choice = _users_choice[0] if _users_choice else os.environ.get(_VISIBLE)
    if choice is None:
        return found
    chosen = [each.strip() for each in choice.split(",") if each.strip()]
    if all(each.lstrip("-").isdigit() for each in chosen):
        return tuple(address for address in found if address in chosen)
    return tuple(chosen)  # names of GPUs, which CUDA takes as well as numbers
