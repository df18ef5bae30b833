"""Throughput of Keras on JAX beside Keras on TensorFlow, on CPUs.

KERAS_BACKEND=jax python -m tests.benchmarks.jax_backend prints that of one backend.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.benchmarks._harness import (
    ROOT,
    Row,
    compared,
    dense,
    digits_arrays,
    steady,
    trained_here,
)

import sparkwright as sw

_REPEATS = 3
_COUNT = 12_000
_JAX = ROOT / ".venv" / "jax"  # see `.ci/setup`


def jax() -> Iterator[Row]:
    """Steady examples/s of 2 workers x 1 core; the backends take turns."""
    if not _JAX.exists():
        print("JAX is not there: `.ci/setup test` fetches it", file=sys.stderr)
        return
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(_REPEATS):
        for backend in ("tensorflow", "jax"):
            for name, rate in _rates_in_a_process(backend).items():
                found.setdefault(name, {}).setdefault(backend, []).append(rate)
    for name, runs in found.items():
        what = f"{name}, 2 workers, JAX against TensorFlow"
        yield compared(what, "examples/s", runs["jax"], runs["tensorflow"], runs=runs)


def _rates_in_a_process(backend: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.jax_backend"],
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(_JAX)]),
        },
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _rates() -> dict[str, float]:
    """Network and master -> examples/s."""
    images, labels = digits_arrays(_COUNT)
    averaging = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
    sharing = sw.SharedTrainingMaster(batch_size_per_worker=32, seed=1)
    flat = images.reshape(_COUNT, -1)
    runs: dict[str, tuple[Any, Any, Any]] = {
        "LeNet, averaging": (sw.networks.lenet(), averaging, images),
        "dense, 0.7 M, averaging": (_dense(), averaging, flat),
        "dense, 0.7 M, sharing": (_dense(), sharing, flat),
    }
    found: dict[str, float] = {}
    with sw.ParallelWrapper(_dense(), averaging, workers=2):  # keeps the trainers
        for name, (model, master, features) in runs.items():
            found[name] = steady(trained_here(model, master, sw.DataSet(features, labels)))
    return found


def _dense() -> Any:
    model = dense(784, 512, 512, 10, activation="relu", top="softmax")
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    print(json.dumps(_rates()))
