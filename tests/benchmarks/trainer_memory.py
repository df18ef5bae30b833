"""The most that trainers take, beside what `plan_memory` says of them.

python -m tests.benchmarks.trainer_memory
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np

import sparkwright as sw
from sparkwright.masters import TrainingMaster

Row = dict[str, Any]
_BATCH = 32


def trainer_memory() -> Iterator[Row]:
    """Peaks of resident memory, of networks of 0.4 to 25 million parameters."""
    averaging = sw.ParameterAveragingTrainingMaster(
        batch_size_per_worker=_BATCH, averaging_frequency=2, seed=1
    )
    sharing = sw.SharedTrainingMaster(batch_size_per_worker=_BATCH, seed=1)
    images = np.zeros((512, 28, 28, 1), np.float32), np.zeros(512, np.int32)
    yield _row("LeNet, averaging", sw.networks.lenet(), averaging, *images)
    for millions, width in ((5, 2_236), (25, 5_000)):
        data = np.zeros((256, width), np.float32), np.zeros((256, 1), np.float32)
        yield _row(f"dense, {millions} M, averaging", _dense(width), averaging, *data)
    yield _row("dense, 25 M, sharing", _dense(5_000), sharing, *data)


def _row(what: str, model: Any, master: TrainingMaster, x: Any, y: Any) -> Row:
    with sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1) as wrapper:
        wrapper.start(sw.DataSet(x, y)).wait()
        found = list(_trainers())
    plan = sw.spark.plan_memory(model, master=master)
    planned = next(part.each_mib for part in plan.parts if part.name == "trainers")
    peak = max(row["VmHWM"] for row in found)
    return {
        "what": f"a trainer's memory, baseline planned: {what}",
        "value": peak,
        "unit": "MiB",
        "baseline": planned,
        "ratio": peak / planned,
        "target": "<= 1.1",
        "runs": {"trainers": found},
    }


def _dense(width: int) -> Any:
    import keras

    layers = [keras.Input((width,)), keras.layers.Dense(width), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    return model


def _trainers() -> Iterator[dict[str, float]]:
    """MiB by name of each of this process's trainers: addresses, peak, now."""
    import psutil

    for process in psutil.Process().children(recursive=True):
        try:
            if "sparkwright.workers._trainer" in process.cmdline():
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
                names = ("VmPeak", "VmHWM", "RssAnon", "RssFile")
                yield {
                    line.split(":")[0]: int(line.split()[1]) / 1024
                    for line in lines
                    if line.startswith(names)
                }
        except psutil.Error:
            continue


if __name__ == "__main__":
    for row in trainer_memory():
        print(f"{row['what']:<60} {row['value']:>8,.0f} {row['baseline']:>8,.0f} {row['runs']}")
