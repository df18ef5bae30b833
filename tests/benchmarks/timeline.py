"""What a timeline costs: processor time and throughput with it, against without, in turn."""

from collections.abc import Iterator
from typing import Any

import psutil
from tests.benchmarks._harness import Row, compared, digits_arrays, steady, trained

import sparkwright as sw

REPEATS = 5


def timeline() -> Iterator[Row]:
    """LeNet, two workers: averaging, then sharing, each off, on, off, on …"""
    data = sw.DataSet(*digits_arrays(12_000))
    for name, kind in (
        ("averaging", sw.ParameterAveragingTrainingMaster),
        ("sharing", sw.SharedTrainingMaster),
    ):
        yield from _compared(name, kind, data)


def _compared(name: str, kind: type[Any], data: sw.DataSet) -> Iterator[Row]:
    model = sw.networks.lenet()
    rates: dict[bool, list[float]] = {False: [], True: []}
    processor: dict[bool, list[float]] = {False: [], True: []}
    spans = minibatches = 0
    masters = {
        on: kind(batch_size_per_worker=32, seed=1, collect_training_stats=on) for on in rates
    }
    wrappers = {
        on: sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1)
        for on, master in masters.items()
    }
    for wrapper in wrappers.values():
        wrapper.fit(data)  # starts TensorFlow, compiles
    for repeat in range(REPEATS):
        # Who goes first takes turns, too.
        for on in (False, True) if repeat % 2 else (True, False):
            before_s = _processor_s()
            run = trained(wrappers[on], data)
            minibatches = len(run.log)
            processor[on].append((_processor_s() - before_s) / minibatches)
            rates[on].append(steady(run))
            spans = max(spans, len(run.timeline)) if on else spans
    for wrapper in wrappers.values():
        wrapper.close()
    for what, found, unit, target in (
        ("processor time of a minibatch", processor, "s", "<= 1.01"),
        ("throughput", rates, "examples/s", ">= 0.99"),
    ):
        yield compared(
            f"LeNet, {name}, with a timeline: {what}",
            *(unit, found[True], found[False]),
            target=target,
            runs={"on": found[True], "off": found[False]},
            spans=spans,
            minibatches=minibatches,
        )


def _processor_s() -> float:
    """Of this process and of all workers."""
    me = psutil.Process()
    times = [each.cpu_times() for each in (me, *me.children(recursive=True))]
    return sum(each.user + each.system for each in times)
