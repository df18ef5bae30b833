"""Training LeNet by averaging: throughput, start-up, memory, exchanges; each with its baseline."""

import math
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from tests.benchmarks._harness import (
    ROOT,
    compared,
    dense,
    digits_arrays,
    row,
    seconds,
    steady,
    trained,
    trained_here,
)

import sparkwright as sw

REPEATS, _ROUNDS = 3, 7
_BASELINES = {"loop": ("best plain Keras loop", 1.05), "fit": ("model.fit on arrays", 1.3)}


def _network(spark, **options):
    """LeNet that was trained once, so that TensorFlow runs and the steps are compiled; its data."""
    data = sw.data.from_arrays(spark, *digits_arrays(12_000))
    network = sw.SparkNetwork(spark, sw.networks.lenet(), _master(**options))
    network.fit(data)
    return network, data


def _master(**options):
    return sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1, **options)


def lenet():
    """Steady examples/s of 2 workers x 1 core, against a plain loop and `model.fit`."""
    spark = sw.start_spark(workers=2)
    network, data = _network(spark)
    found = {"loop": [], "fit": [], "ours": []}
    for _ in range(REPEATS):
        found["loop"].append(_baseline("loop"))
        found["ours"].append(steady(trained(network, data)))
        found["fit"].append(_baseline("fit"))
    spark.stop()
    for baseline, (name, target) in _BASELINES.items():
        yield compared(
            f"LeNet, 2 workers, against the {name}",
            *("examples/s", found["ours"], found[baseline]),
            target=f">= {target}",
            runs=found,
        )
    yield from _every_minibatch()


def _every_minibatch():
    """Averaging after every minibatch, against the plain loop, in pairs."""
    data, model = sw.DataSet(*digits_arrays(12_000)), sw.networks.lenet()
    for updater, target in (("local", ">= 0.9"), ("average", "")):
        what = f'LeNet, 2 workers, every minibatch, updater="{updater}", against the loop'
        master = _master(averaging_frequency=1, updater=updater)
        with sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1) as wrapper:
            trained(wrapper, data, epochs=1)
            yield _against(what, wrapper, data, lambda: _baseline("loop"), target=target)


def peers():
    """LeNet with two workers, against Elephas, and torchft's LocalSGD where that is installed.

    Elephas is installed for this if it can be. torch with torchft takes 5 GB: TORCH_PYTHON names a
    Python that has them.
    """
    spark = sw.start_spark(workers=2)
    network, data = _network(spark)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        installed = subprocess.run([*command, "--target", folder, "elephas"], check=False)
        if installed.returncode:
            yield row("Elephas could not be installed", math.nan, "")
        else:
            what = "LeNet, 2 workers, against Elephas, synchronous"
            yield _against(what, network, data, lambda: _baseline("elephas", folder))
        if python := os.environ.get("TORCH_PYTHON"):
            arrays = f"{folder}/digits.npz"
            images, labels = digits_arrays(12_000)
            np.savez(arrays, images=images, labels=labels)
            what = "LeNet, 2 workers, against torchft's LocalSGD, every 5"
            script = "tests/benchmarks/_torchft.py"
            yield _against(what, network, data, lambda: _printed([python, script, arrays]))
    spark.stop()


def _against(what, network, data, peer, *, target=""):
    """Our examples/s beside those of `peer`, in pairs."""
    found = {"ours": [], "peer": []}
    for _ in range(REPEATS):
        found["ours"].append(steady(trained(network, data)))
        found["peer"].append(peer())
    rates = found["ours"], found["peer"]
    return compared(what, "examples/s", *rates, target=target, runs=found)


def by_driver():
    """LeNet with 2 workers connected by way of the driver, against the ring, in pairs."""
    data, model = sw.DataSet(*digits_arrays(12_000)), sw.networks.lenet()
    for frequency in (5, 1):
        found = {"ring": [], "driver": []}
        for repeat in range(1 + REPEATS):
            for way, rates in found.items():
                master = _master(averaging_frequency=frequency, communication=way)
                rate = steady(trained_here(model, master, data))
                if repeat:  # the first compiles
                    rates.append(rate)
        yield compared(
            f"LeNet, 2 workers, by way of the driver, every {frequency}, against the ring",
            *("examples/s", found["driver"], found["ring"]),
            target=">= 0.6",
            runs=found,
        )


def start():
    """Seconds from `start` to the first loss: first run, and second at once."""
    began_s = time.perf_counter()
    spark = sw.start_spark(workers=2)
    spark_s = time.perf_counter() - began_s
    tensorflow_s = seconds(lambda: _import_tensorflow(at_once=2))
    data = sw.data.from_arrays(spark, *digits_arrays(12_000))
    network = sw.SparkNetwork(spark, sw.networks.lenet(), _master())
    for name in ("first run", "second run, at once"):
        run = trained(network, data, epochs=1)
        first = name == "first run"
        yield row(
            f"start to first loss, {name}",
            *(run.start_seconds, "s", tensorflow_s if first else None),
            ratio=None,
            target="<= TensorFlow's start + 3 s" if first else "<= 1.5 s",
            runs={"start_spark_s": spark_s},
        )
    spark.stop()


def ring():
    """An averaging round (read, all-reduce) of two workers, beside one copy by bare sockets."""
    for parameters in (430_000, 25_000_000):
        what = f"averaging {parameters / 1e6:g} M parameters, 2 workers"
        bare_ms = _bare_sockets_ms(4 * parameters, 1)
        target = "<= 2 for 25 M; LeNet <= 10 ms"
        yield row(what, _averaging_ms(parameters), "ms", bare_ms, target=target)


def workers():
    """How throughput and averaging grow with the number of workers, on these cores."""
    alone = 0.0
    for count in (1, 2, 4):
        spark = sw.start_spark(workers=count)
        run = trained(*_network(spark, collect_training_stats=True))
        rate = steady(run)
        alone = alone or rate
        average_ms = 1e3 * run.timeline.to_dataframe().query("phase == 'average'").seconds.median()
        spark.stop()
        runs = {"averaging_ms": average_ms}
        yield row(
            f"LeNet, {count} workers x 1 core, against 1", rate, "examples/s", alone, runs=runs
        )
        target = "<= 10 ms" if count == 2 else ""
        yield row(f"LeNet averaging, {count} workers", average_ms, "ms", target=target)


def _baseline(what, packages=""):
    """Examples/s without Sparkwright, in a process that also finds what lies in `packages`."""
    paths = filter(None, (packages, os.environ.get("PYTHONPATH", "")))
    command = [sys.executable, "tests/benchmarks/_baselines.py", what]
    return _printed(command, PYTHONPATH=os.pathsep.join(paths))


def _printed(command, **environment):
    """The number that a process prints last."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    return float(done.stdout.strip().splitlines()[-1])


def _import_tensorflow(*, at_once):
    """By so many processes at the same time."""
    command = [sys.executable, "-c", "import tensorflow, keras; keras.layers"]
    started = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(at_once)]
    for process in started:
        process.wait()


def _bare_sockets_ms(size, pairs):
    """Milliseconds to send `size` bytes over loopback TCP in each of some pairs of processes.

    The sender's other half only receives, and all pairs begin together.
    """
    context = multiprocessing.get_context("fork")
    start = context.Barrier(pairs)
    found = context.Queue()
    senders = [context.Process(target=_send, args=(size, start, found)) for _ in range(pairs)]
    for sender in senders:
        sender.start()
    slowest = [max(times) for times in zip(*(found.get() for _ in senders), strict=True)]
    for sender in senders:
        sender.join()
    return 1e3 * statistics.median(slowest[2:])


def _send(size, start, found):
    """Send to a process of its own, and put the seconds of each time into `found`."""

    def act():
        sock.sendall(payload)
        sock.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        context = multiprocessing.get_context("fork")
        receiver = context.Process(target=_receive, args=(listener.getsockname(), size, _ROUNDS))
        receiver.start()
        sock, _ = listener.accept()
        payload, times = bytes(size), []
        with sock:
            for _ in range(_ROUNDS):
                start.wait()
                times.append(seconds(act))
        found.put(times)
        receiver.join()


def _receive(address, size, rounds):
    with socket.create_connection(address) as sock:
        view = memoryview(bytearray(size))
        for _ in range(rounds):
            got = 0
            while got < size:
                got += sock.recv_into(view[got:])
            sock.sendall(b"k")


def _averaging_ms(parameters):
    """Median milliseconds of the "average" phase of real rounds with a network of that size."""
    width = 2_000
    model = dense(8, width, max(1, parameters // width), 1)
    model.compile("sgd", "mse")
    data = sw.DataSet(np.zeros((30, 8), np.float32), np.zeros((30, 1), np.float32))
    master = sw.ParameterAveragingTrainingMaster(
        batch_size_per_worker=1, averaging_frequency=1, collect_training_stats=True
    )
    spans = trained_here(model, master, data, epochs=1).timeline.to_dataframe()
    averages = spans[spans.phase == "average"].groupby("worker").tail(12)  # without the first three
    return 1e3 * float(averages.seconds.median())
