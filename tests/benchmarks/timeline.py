"""What a timeline costs: processor time and throughput with it, against without, in turn."""

import statistics
from collections.abc import Iterator
from typing import Any

import psutil
from tests.benchmarks._data import digits_arrays

import sparkwright as sw

Row = dict[str, Any]
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
            run = wrappers[on].start(data, epochs=4)
            run.wait()
            minibatches = len(run.log)
            processor[on].append((_processor_s() - before_s) / minibatches)
            rates[on].append(_steady(run))
            spans = max(spans, len(run.timeline)) if on else spans
    for wrapper in wrappers.values():
        wrapper.close()
    for what, found, unit, target in (
        ("processor time of a minibatch", processor, "s", "<= 1.01"),
        ("throughput", rates, "examples/s", ">= 0.99"),
    ):
        ratios = [one / other for one, other in zip(found[True], found[False], strict=True)]
        yield {
            "what": f"LeNet, {name}, with a timeline: {what}",
            "value": statistics.median(found[True]),
            "unit": unit,
            "baseline": statistics.median(found[False]),
            "ratio": statistics.median(ratios),
            "target": target,
            "runs": {"on": found[True], "off": found[False]},
            "spans": spans,
            "minibatches": minibatches,
        }


def _steady(run: Any) -> float:
    """Examples a second after the first epoch."""
    history = run.history
    later = history[history.epoch > 1]
    began_s = history[history.epoch == 1].time_s.max()
    return float(later.examples.sum() / (later.time_s.max() - began_s))


def _processor_s() -> float:
    """Of this process and of all workers."""
    me = psutil.Process()
    times = [each.cpu_times() for each in (me, *me.children(recursive=True))]
    return sum(each.user + each.system for each in times)
