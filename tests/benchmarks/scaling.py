"""The model of scaling beside runs of 1 to 8 workers on this machine.

    python -m tests.benchmarks.scaling               measure, compare, draw the picture of docs
    python -m tests.benchmarks.scaling averaging     measure one master only
    python -m tests.benchmarks.scaling draw          compare and draw what was measured before

Minibatches sleep, so that eight workers on two cores compute side by side as eight machines would.
What they exchange costs processor time, and that they share.
"""

import json
import sys

import numpy as np
from tests.benchmarks._harness import ROOT, TRAINER, processes, row, show, trained
from tests.spark.helpers import Paced

import sparkwright as sw
from sparkwright.advice import predict

MEASURED = ROOT / "reports" / "scaling.json"
WORKERS = (1, 2, 4, 8)
POWERS_OF_TWO = [2**power for power in range(11)]
LOOPBACK_BYTES_PER_S = 2.5e9
PAUSE_S = 0.1
PICTURE = ROOT / "docs" / "images" / "scaling.png"
_MINIBATCHES, _BATCH, _EPOCHS = 20, 32, 2
# Of this machine: loopback has no wires, and two cores do all that is no sleep.
LATENCY_S, CORES = 5e-5, 2
LENET_BYTES = 4 * 431_080
# As large as a residual network of 50 layers; updates of a thousandth of the parameters.
LARGE_BYTES = 100_000_000
LARGE = {
    "averaging": sw.ParameterAveragingTrainingMaster(averaging_frequency=5),
    "sharing": sw.SharedTrainingMaster(
        threshold=sw.TargetSparsity(target=1e-3), mesh=sw.MeshConfig(mode="mesh")
    ),
}


def measure(kind):
    """Seconds and processor seconds a minibatch, by number of workers."""
    found = []
    model = sw.networks.lenet()
    for count in WORKERS:
        rows = count * _MINIBATCHES * _BATCH
        random = np.random.default_rng(0)
        data = sw.DataSet(
            random.random((rows, 28, 28, 1), dtype=np.float32),
            random.integers(0, 10, rows).astype(np.int32),
        )
        with sw.ParallelWrapper(
            model, master_of(kind).with_hooks(Paced(PAUSE_S)), workers=count, cores_per_worker=1
        ) as wrapper:
            trained(wrapper, data, epochs=1)  # starts TensorFlow, compiles
            before_s = _trainers_s()
            history = trained(wrapper, data, epochs=_EPOCHS).history
            spent_s = _trainers_s() - before_s
        later = history[history.epoch == _EPOCHS]
        # Within an epoch: sharing's meeting at its end is told by itself.
        times = later.groupby("worker").time_s.agg(["min", "max", "size"])
        minibatch_s = float(((times["max"] - times["min"]) / (times["size"] - 1)).mean())
        epoch_s = later.time_s.max() - history[history.epoch == _EPOCHS - 1].time_s.max()
        found.append(
            {
                "kind": kind,
                "workers": count,
                "minibatch_s": minibatch_s,
                "epoch_end_s": float(epoch_s - minibatch_s * len(later) / count),
                "processor_s": spent_s / len(history),
                "message_bytes": float(later.message_bytes.mean()) if kind == "sharing" else 0.0,
            }
        )
        print(found[-1], file=sys.stderr, flush=True)
    return found


def master_of(kind):
    """Averaging every minibatch, which costs most, or sharing."""
    if kind == "averaging":
        return sw.ParameterAveragingTrainingMaster(
            batch_size_per_worker=_BATCH, averaging_frequency=1, seed=1
        )
    return sw.SharedTrainingMaster(
        batch_size_per_worker=_BATCH, threshold=sw.FixedThreshold(threshold=3e-3), seed=1
    )


def _trainers_s():
    """Processor seconds of all trainers."""
    return sum(sum(each.cpu_times()[:2]) for each in processes(TRAINER))


def _kept():
    """What was measured before, by the kind of master."""
    return json.loads(MEASURED.read_text()) if MEASURED.exists() else {}


def _keep(kind, rows):
    MEASURED.parent.mkdir(exist_ok=True)
    MEASURED.write_text(json.dumps({**_kept(), kind: rows}, indent=2))


def scaling():
    """Milliseconds a minibatch, measured, beside those predicted from one worker's."""
    for kind in ("averaging", "sharing"):
        rows = _kept().get(kind) or measure(kind)
        _keep(kind, rows)
        found = predicted(kind, rows[0])
        for each in rows:
            foretold_ms = 1e3 * found.at(each["workers"]).interval_s
            what = f"a minibatch of {each['workers']} workers, {kind}, baseline predicted"
            yield row(what, 1e3 * each["minibatch_s"], "ms", foretold_ms, runs=each)


def predicted(kind, alone):
    """What the model says of this machine, where all is shared but the sleep."""
    share = alone["processor_s"] / alone["minibatch_s"]
    costs = sw.masters.ScalingCosts(cores=CORES, processor_share=share)
    return predict(
        master_of(kind),
        step_s=alone["minibatch_s"],
        vector_bytes=LENET_BYTES,
        updater_bytes=2 * LENET_BYTES,
        workers=1,
        costs=costs.with_network(LOOPBACK_BYTES_PER_S, LATENCY_S),
    )


def draw(kept):
    """Up to 1,024 workers of 25 million parameters, and the check on this machine."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    colors = {0.01: "tab:red", 0.1: "tab:blue", 1.0: "tab:green"}
    for axis, gigabits in zip(axes, (10, 100), strict=False):
        for step_s, color in colors.items():
            for kind, style in (("averaging", "-"), ("sharing", "--")):
                found = predict(
                    LARGE[kind],
                    step_s=step_s,
                    vector_bytes=LARGE_BYTES,
                    workers=1,
                    costs=sw.masters.ScalingCosts().with_network(gigabits * 1.25e8),
                )
                points = [(count, found.at(count).speed_up) for count in POWERS_OF_TWO]
                label = f"{1e3 * step_s:g} ms, {kind}"
                axis.loglog(*zip(*points, strict=True), style, color=color, label=label)
        axis.loglog([1, 1024], [1, 1024], ":", color="gray", label="in proportion")
        axis.set(title=f"25 M parameters, {gigabits} Gbit/s", xlabel="workers")
        axis.set(ylabel="times as fast as one", ylim=(0.5, 1500))
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter(lambda value, _: f"{value:,g}")
    axes[0].legend(fontsize=7)
    axis = axes[2]
    for (kind, rows), color in zip(kept.items(), ("tab:blue", "tab:orange"), strict=False):
        found = predicted(kind, rows[0])
        foretold = [(count, 1e3 * found.at(count).interval_s) for count in range(1, 9)]
        measured = [(row["workers"], 1e3 * row["minibatch_s"]) for row in rows]
        axis.plot(*zip(*foretold, strict=True), color=color, label=f"{kind}, predicted")
        axis.plot(*zip(*measured, strict=True), "o", color=color, label=f"{kind}, measured")
    axis.set(title="LeNet on two cores: checked", xlabel="workers", ylabel="ms a minibatch")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=7)
    figure.savefig(PICTURE, dpi=100)


def main(kinds):
    """Measure what is named, then compare and draw what there is."""
    for kind in kinds:
        _keep(kind, measure(kind))
    if len(kinds) != 1:
        show(scaling())
        draw(_kept())


if __name__ == "__main__":
    arguments = sys.argv[1:] or ["averaging", "sharing"]
    main([] if arguments == ["draw"] else arguments)
