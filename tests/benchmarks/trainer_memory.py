"""The most that trainers take, beside what `advise` says of them.

python -m tests.benchmarks.trainer_memory
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.benchmarks._harness import TRAINER, Row, dense, processes, row, show, status_mib, trained

import sparkwright as sw
from sparkwright.masters import TrainingMaster

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
        trained(wrapper, sw.DataSet(x, y), epochs=1)
        found = [status_mib(process.pid) for process in processes(TRAINER)]
    plan = sw.advise(model, master=master, workers=2, step_s=1).memory
    assert plan is not None
    planned = next(part.each_mib for part in plan.parts if part.name == "trainers")
    peak = max(each["VmHWM"] for each in found)
    what = f"a trainer's memory, baseline planned: {what}"
    return row(what, peak, "MiB", planned, target="<= 1.1", runs={"trainers": found})


def _dense(width: int) -> Any:
    model = dense(width, width, 1)
    model.compile("adam", "mse")
    return model


if __name__ == "__main__":
    show(trainer_memory())
