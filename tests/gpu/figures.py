"""Figures of a GPU: each beside what it is compared with, measured in the same run."""

import numpy as np
from tests.benchmarks._harness import Row, row, steady
from tests.gpu.networks import GPU, SMALL, averaging, network, random_data, train, wide
from tests.gpu.plain import measured

import sparkwright as sw

_ROUNDS = 6 if SMALL else 12
Found = tuple[str, list[Row]]


def throughput(name):
    """Examples/s of plain Keras, of the best plain loop, and of one and two workers on the GPU."""
    plain = measured("steps", name)
    print(f"Without Sparkwright: {plain}", flush=True)  # for the log of a check that takes too long
    sw.leave_gpus_to_workers()
    batch, loop = plain["batch"], plain["loop"]
    one = _rate(name, loop, [GPU])
    often = _rate(name, loop, [GPU], averaging_frequency=5)
    two = _rate(name, loop, [GPU, GPU])
    label = f"{name}, {plain['parameters'] / 1e6:.1f} million parameters, minibatches of {batch}"
    unit = "examples/s"
    rows = [
        row(f"{label}: model.fit, beside the best plain loop", plain["fit"], unit, loop),
        row(f"{label}: one worker, beside the best plain loop", one, unit, loop, target=">= 0.98"),
        row(f"{label}: one worker, averaging every 5 minibatches, likewise", often, unit, loop),
        row(f"{label}: two workers on the GPU, averaging every epoch, likewise", two, unit, loop),
    ]
    for what, rate in (("the best plain loop", loop), ("one worker", one)):
        # A step alone takes longer than one in a row of them where the GPU waits for Python.
        outside = max(0.0, 1 - rate / max(plain["alone"], rate))
        rows.append(row(f"{label}: share of a step outside the GPU, {what}", outside, ""))
    rates = ", ".join(f"{kind} {rate:,.0f}" for kind, rate in plain["loops"].items())
    return f"One worker has {one / loop:.2f} of the best plain loop ({rates} examples/s).", rows


def _rate(name, expected, devices, **options):
    """Examples/s of Sparkwright from the second epoch on, in epochs of about a second."""
    model, batch = network(name)
    most = (4 if SMALL else 20) if name == "resnet50" else 2_000
    minibatches = max(4, min(most, int(expected * (0.05 if SMALL else 1.0) / batch)))
    data = sw.DataSet(*random_data(model, minibatches * batch * len(devices)))
    options = {"batch_size_per_worker": batch, "averaging_frequency": minibatches, **options}
    run = train(model, averaging(**options), data, devices, epochs=3 if SMALL else 4)
    rate = steady(run)
    print(f"{devices} {options}: {rate:,.0f} examples/s", flush=True)
    return rate


def exchange(millions):
    """An averaging round of two workers on the GPU, beside the same bytes copied and sent bare."""
    bare = measured("vectors", millions)
    sent_s, parameters = measured("sockets", millions)["seconds"], bare["parameters"]
    sw.leave_gpus_to_workers()
    model = wide(parameters)
    width = model.input_shape[1]
    features, labels = np.zeros((2 * _ROUNDS, width)), np.zeros((2 * _ROUNDS, 1))
    data = sw.DataSet(features.astype(np.float32), labels.astype(np.float32))
    master = averaging(batch_size_per_worker=1, averaging_frequency=1, collect_training_stats=True)
    run = train(model, master, data, [GPU, GPU])
    spans = run.timeline.to_dataframe().astype({"phase": object})
    later = spans.groupby(["worker", "phase"]).tail(_ROUNDS - 3)
    seconds = later.groupby("phase").seconds.median().loc[["average", "apply"]].to_dict()
    round_s, bare_s = sum(seconds.values()), bare["down"] + sent_s + bare["up"]
    label, unit = f"{parameters / 1e6:.3g} million parameters", "ms"
    figures = {
        "read the vector, beside one array": (bare["read"], bare["down"], ""),
        "write the vector, beside one array": (bare["write"], bare["up"], ""),
        "a round of two workers, beside down, send, up": (round_s, bare_s, "<= 1.5"),
        "of that reading and summing": (seconds["average"], None, ""),
        "of that writing": (seconds["apply"], None, ""),
    }
    rows = [
        row(f"{label}: {what}", 1e3 * ours, unit, theirs and 1e3 * theirs, target=goal)
        for what, (ours, theirs, goal) in figures.items()
    ]
    parts = f"down {1e3 * bare['down']:.0f}, send {1e3 * sent_s:.0f}, up {1e3 * bare['up']:.0f} ms"
    return f"A round takes {round_s / bare_s:.2f} times the bare arithmetic ({parts}).", rows
