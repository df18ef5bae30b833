"""Benchmarks: each figure beside the baseline of the same run, as a table and as JSON.

    make bench                      everything
    make bench ONLY=lenet,ring      some of it

The machine is shared and noisy, so baselines are measured in turn with what they are compared
with, and the median counts. Nothing is asserted.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from tests.benchmarks._data import digits_arrays  # noqa: E402
from tests.benchmarks.auc import auc  # noqa: E402
from tests.benchmarks.coordinator import coordinator  # noqa: E402
from tests.benchmarks.csv_files import csv_files  # noqa: E402
from tests.benchmarks.driver_memory import driver_memory  # noqa: E402
from tests.benchmarks.encoding import encoding  # noqa: E402
from tests.benchmarks.exported import exported  # noqa: E402
from tests.benchmarks.hdfs import hdfs  # noqa: E402
from tests.benchmarks.images import images  # noqa: E402
from tests.benchmarks.inference import inference  # noqa: E402
from tests.benchmarks.live import live  # noqa: E402
from tests.benchmarks.mesh_growth import mesh_growth  # noqa: E402
from tests.benchmarks.scaling import scaling  # noqa: E402
from tests.benchmarks.sharing import sharing  # noqa: E402
from tests.benchmarks.timeline import timeline  # noqa: E402

import sparkwright as sw  # noqa: E402

Row = dict[str, Any]
REPEATS = 3


def main() -> None:
    """Run what ONLY names (default: all), print and write."""
    only = [name for name in os.environ.get("ONLY", "").split(",") if name]
    rows: list[Row] = []
    for name, benchmark in BENCHMARKS.items():
        if only and name not in only:
            continue
        print(f"… {name}", file=sys.stderr, flush=True)
        for row in benchmark():
            rows.append({"benchmark": name, **row})
            print(_line(rows[-1]), flush=True)
    _write(rows)


# -- LeNet throughput -----------------------------------------------------------------------


def lenet() -> Iterator[Row]:
    """Steady examples/s of 2 workers x 1 core, against a plain loop and `model.fit`."""
    spark = sw.start_spark(workers=2)
    data = sw.data.from_arrays(spark, *digits_arrays(12_000))
    network = sw.SparkNetwork(spark, sw.networks.lenet(), _master())
    network.fit(data)  # starts TensorFlow, compiles
    found: dict[str, list[float]] = {"loop": [], "fit": [], "ours": []}
    for _ in range(REPEATS):
        found["loop"].append(_baseline("loop"))
        run = network.start(data, epochs=4)
        run.wait()
        found["ours"].append(_steady(run))
        found["fit"].append(_baseline("fit"))
    spark.stop()
    median = {name: statistics.median(values) for name, values in found.items()}
    for baseline, target in (("loop", 1.05), ("fit", 1.3)):
        ratios = [o / b for o, b in zip(found["ours"], found[baseline], strict=True)]
        yield {
            "what": f"LeNet, 2 workers, against the {_NAMES[baseline]}",
            "value": median["ours"],
            "unit": "examples/s",
            "baseline": median[baseline],
            "ratio": statistics.median(ratios),
            "target": f">= {target}",
            "runs": found,
        }


def panel() -> Iterator[Row]:
    """Throughput with the live panel's thread at work, against without."""
    from sparkwright_widgets.display import panel_for

    spark = sw.start_spark(workers=2)
    data = sw.data.from_arrays(spark, *digits_arrays(12_000))
    network = sw.SparkNetwork(spark, sw.networks.lenet(), _master())
    network.fit(data)
    ratios = []
    for _ in range(REPEATS):
        rates = {}
        for shown in (False, True):
            run = network.start(data, epochs=4)
            panel = panel_for(run) if shown else None
            run.wait()
            rates[shown] = _steady(run)
            del panel
        ratios.append(rates[True] / rates[False])
    spark.stop()
    yield {
        "what": "LeNet with the live panel, against without",
        "value": rates[True],
        "unit": "examples/s",
        "baseline": rates[False],
        "ratio": statistics.median(ratios),
        "target": ">= 0.97",
        "runs": ratios,
    }


# -- start-up and memory --------------------------------------------------------------------


def start() -> Iterator[Row]:
    """Seconds from `start` to the first loss: first run, second at once, after three minutes."""
    began_s = time.perf_counter()
    spark = sw.start_spark(workers=2)
    spark_s = time.perf_counter() - began_s
    tensorflow_s = _tensorflow_seconds(at_once=2)
    data = sw.data.from_arrays(spark, *digits_arrays(12_000))
    model = sw.networks.lenet()
    network = sw.SparkNetwork(spark, model, _master())
    for name, idle_s in (("first run", 0), ("second run, at once", 0), ("after 3 min", 185)):
        time.sleep(idle_s)
        run = network.start(data)
        run.wait()
        first = name == "first run"
        yield {
            "what": f"start to first loss, {name}",
            "value": run.start_seconds,
            "unit": "s",
            "baseline": tensorflow_s if first else None,
            "ratio": None,
            "target": "<= TensorFlow's start + 3 s" if first else "<= 1.5 s",
            "runs": {"start_spark_s": spark_s},
        }
    yield from _memory()
    spark.stop()


def _memory() -> Iterator[Row]:
    """Memory of all our processes after training (proportional set size), by role."""
    import psutil

    totals: dict[str, float] = {}
    ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
    # A trainer whose Python worker has ended is nobody's child any more.
    trainers = [p for p in psutil.process_iter() if p not in ours and _is_trainer(p)]
    for process in [*ours, *trainers]:
        try:
            line = " ".join(process.cmdline())
            role = (
                "trainer (TensorFlow), each"
                if "_trainer" in line
                else "executors and driver JVM"
                if "java" in line
                else "Spark's Python workers"
                if "pyspark" in line
                else "driver (Python, TensorFlow)"
            )
            size = process.memory_full_info().pss / 2**20
        except psutil.Error:
            continue
        totals[role] = max(size, totals.get(role, 0)) if "each" in role else (
            totals.get(role, 0) + size
        )  # fmt: skip
    for role, size in totals.items():
        yield {"what": f"memory after training: {role}", "value": size, "unit": "MiB"}


def _is_trainer(process: Any) -> bool:
    import psutil

    try:
        return "sparkwright.workers._trainer" in process.cmdline()
    except psutil.Error:
        return False


# -- averaging rounds -----------------------------------------------------------------------


def ring() -> Iterator[Row]:
    """An averaging round (read, all-reduce, write) beside the same bytes over a bare socket."""
    for workers in (2, 4):
        for parameters in (430_000, 5_000_000, 25_000_000):
            socket_ms = _bare_socket_ms(4 * parameters)
            round_ms = _averaging_ms(parameters, workers)
            yield {
                "what": f"averaging {parameters / 1e6:g} M parameters, {workers} workers",
                "value": round_ms,
                "unit": "ms",
                "baseline": socket_ms,
                "ratio": round_ms / socket_ms,
                "target": "<= 3 for 25 M and 2 workers; LeNet <= 10 ms" if workers == 2 else "",
            }


def workers() -> Iterator[Row]:
    """How throughput and averaging grow with the number of workers, on these cores."""
    arrays = digits_arrays(12_000)
    alone = 0.0
    for count in (1, 2, 4):
        spark = sw.start_spark(workers=count)
        data = sw.data.from_arrays(spark, *arrays)
        master = _master(collect_training_stats=True)
        network = sw.SparkNetwork(spark, sw.networks.lenet(), master)
        network.fit(data)
        run = network.start(data, epochs=4)
        run.wait()
        rate = _steady(run)
        alone = alone or rate
        average_ms = 1e3 * run.stats.query("phase == 'average'").seconds.median()
        spark.stop()
        yield {
            "what": f"LeNet, {count} workers x 1 core, against 1",
            "value": rate,
            "unit": "examples/s",
            "baseline": alone,
            "ratio": rate / alone,
            "runs": {"averaging_ms": average_ms},
        }
        yield {"what": f"LeNet averaging, {count} workers", "value": average_ms, "unit": "ms",
               "target": "<= 10 ms" if count == 2 else ""}  # fmt: skip


# -- helpers --------------------------------------------------------------------------------

_NAMES = {"loop": "best plain Keras loop", "fit": "model.fit on arrays"}


def _master(**options: Any) -> sw.ParameterAveragingTrainingMaster:
    return sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1, **options)


def _steady(run: Any) -> float:
    """Examples/s of all workers together, from the second epoch on."""
    history = run.history
    later = history[history.epoch > 1]
    return float(later.examples.sum() / (later.time_s.max() - _end_of_first(history)))


def _end_of_first(history: Any) -> float:
    return float(history[history.epoch == 1].time_s.max())


def _baseline(what: str) -> float:
    return float(_python("tests/benchmarks/_baselines.py", what)["examples_per_s"])


def _python(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def _tensorflow_seconds(*, at_once: int) -> float:
    """Seconds that so many processes take to import TensorFlow and Keras at the same time."""
    began_s = time.perf_counter()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", "import tensorflow, keras; keras.layers"],
            stderr=subprocess.DEVNULL,
        )
        for _ in range(at_once)
    ]
    for process in started:
        process.wait()
    return time.perf_counter() - began_s


def _bare_socket_ms(size: int) -> float:
    """Milliseconds to send `size` bytes over loopback TCP to a process that only receives."""
    import multiprocessing
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        context = multiprocessing.get_context("fork")
        receiver = context.Process(target=_receive, args=(listener.getsockname(), size, 7))
        receiver.start()
        sock, _ = listener.accept()
        payload, times = bytes(size), []
        with sock:
            for _ in range(7):
                began_s = time.perf_counter()
                sock.sendall(payload)
                sock.recv(1)
                times.append(time.perf_counter() - began_s)
        receiver.join()
    return 1e3 * statistics.median(times[2:])


def _receive(address: Any, size: int, rounds: int) -> None:
    import socket

    with socket.create_connection(address) as sock:
        view = memoryview(bytearray(size))
        for _ in range(rounds):
            got = 0
            while got < size:
                got += sock.recv_into(view[got:])
            sock.sendall(b"k")


def _averaging_ms(parameters: int, count: int) -> float:
    """Median milliseconds of the "average" phase of real rounds with a network of that size."""
    import keras

    width = 2_000
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(width),
            keras.layers.Dense(max(1, parameters // width)),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    rows = 15 * count
    data = sw.DataSet(np.zeros((rows, 8), np.float32), np.zeros((rows, 1), np.float32))
    master = sw.ParameterAveragingTrainingMaster(
        batch_size_per_worker=1, averaging_frequency=1, collect_training_stats=True
    )
    with sw.ParallelWrapper(model, master, workers=count, cores_per_worker=1) as wrapper:
        run = wrapper.start(data)
        run.wait()
    stats = run.stats
    averages = stats[stats.phase == "average"].groupby("worker").tail(12)  # without the first three
    return 1e3 * float(averages.seconds.median())


def _line(row: Row) -> str:
    def number(key: str, form: str) -> str:
        return format(row[key], form) if row.get(key) is not None else ""

    return (
        f"{row['what']:<58} {number('value', ',.2f'):>10} {row['unit']:<11}"
        f"{number('baseline', ',.2f'):>10} {number('ratio', '.2f'):>7}  {row.get('target', '')}"
    )


def _write(rows: list[Row]) -> None:
    import platform
    from importlib.metadata import version

    names = ("sparkwright", "tensorflow", "keras", "pyspark", "numpy", "pyarrow")
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **{n: version(n) for n in names}},
        "rows": rows,
    }
    target = ROOT / "reports" / "benchmarks.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(document, indent=2))
    print(f"written to {target.relative_to(ROOT)}")


BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "lenet": lenet,
    "start": start,
    "ring": ring,
    "workers": workers,
    "panel": panel,
    "encoding": encoding,
    "images": images,
    "mesh": mesh_growth,
    "sharing": sharing,
    "coordinator": coordinator,
    "scaling": scaling,
    "timeline": timeline,
    "exported": exported,
    "csv": csv_files,
    "inference": inference,
    "auc": auc,
    "driver_memory": driver_memory,
    "hdfs": hdfs,
    "live": live,
}

if __name__ == "__main__":
    main()
