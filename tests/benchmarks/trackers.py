"""What trackers cost: throughput with MLflow and TensorBoard, against without, in turn."""

import math
import statistics
import tempfile
from collections.abc import Iterator

from tests.benchmarks._harness import Row, compared, digits_arrays, steady

import sparkwright as sw

PAIRS = 8
# Student's t for 95 % with seven degrees of freedom.
_T = 2.365


def trackers() -> Iterator[Row]:
    """LeNet, two workers, averaging: without trackers, with both, without, …"""
    data = sw.DataSet(*digits_arrays(12_000))
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
    found: dict[bool, list[float]] = {False: [], True: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        sw.ParallelWrapper(sw.networks.lenet(), master, workers=2, cores_per_worker=1) as wrapper,
    ):
        both = [
            sw.trackers.TensorBoard(f"{folder}/tensorboard"),
            sw.trackers.MLflow(tracking_uri=f"sqlite:///{folder}/mlflow.sqlite", log_model=False),
        ]
        for on in (True, False):
            wrapper.fit(data, log_to=both if on else None)  # starts TensorFlow, makes the store
        for pair in range(PAIRS):
            for on in (False, True) if pair % 2 else (True, False):
                run = wrapper.start(data, epochs=4, log_to=both if on else None)
                run.wait()
                found[on].append(steady(run))
    logs = [math.log(a / b) for a, b in zip(found[True], found[False], strict=True)]
    mean, half = statistics.mean(logs), _T * statistics.stdev(logs) / math.sqrt(PAIRS)
    yield compared(
        "LeNet, averaging, with MLflow and TensorBoard: throughput",
        *("examples/s", found[True], found[False]),
        target=">= 0.98",
        runs={"on": found[True], "off": found[False]},
        interval=[math.exp(mean - half), math.exp(mean + half)],
    )
