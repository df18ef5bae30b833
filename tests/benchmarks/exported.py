"""Exported minibatches: reading them back against reading their bytes, training from them."""

import tempfile
from pathlib import Path

import numpy as np
from tests.benchmarks._harness import compared, digits_arrays, in_turn, rates

import sparkwright as sw
from sparkwright.data import from_bytes
from sparkwright.data.loaders import MinibatchReader, numpy_loader
from sparkwright.data.paths import find_files
from sparkwright.data.pieces import SkipLog

REPEATS = 5
SIZE_BYTES = 256 << 20


def exported():
    """MB/s of one process from a warm page cache, then seconds of an epoch."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-benchmark-") as folder:
        yield from _reading(folder)
        yield from _training(folder)


def _reading(folder):
    for batch_size, shape in ((32, (28, 28, 1)), (256, (28, 28, 1)), (64, (64, 64, 3))):
        row = np.random.default_rng(0).random(shape, dtype=np.float32)
        url = f"{folder}/batches-of-{batch_size}"
        count = SIZE_BYTES // (batch_size * row.nbytes)
        minibatch = (np.repeat(row[None], batch_size, axis=0), np.zeros(batch_size, np.int32))
        export = sw.data.to_minibatch_files(
            (minibatch for _ in range(count)), url, batch_size=batch_size
        )
        archives = Path(folder) / f"npz-{batch_size}"
        archives.mkdir()
        for number in range(count):
            np.savez(archives / f"{number:06d}.npz", features=minibatch[0], labels=minibatch[1])
        ways = {
            "bytes": lambda paths=export.paths: _bytes(paths),
            "Arrow files": lambda url=url: _drained(url, None),
            "NumPy archives": lambda archives=archives: _drained(str(archives), numpy_loader),
        }
        found = rates(export.manifest.size_bytes / 1e6, in_turn(REPEATS, ways))
        for name in ("Arrow files", "NumPy archives"):
            yield compared(
                f"{name} of {batch_size} {shape}, against reading the bytes",
                *("MB/s", found[name], found["bytes"]),
                target=">= 0.5" if name == "Arrow files" else "",
                runs=found,
            )


def _bytes(paths):
    return sum(len(Path(path).read_bytes()) for path in paths)


def _drained(url, loader):
    """What a task does, without Spark: find files, read ahead, check, and see the arrays."""
    found = find_files(url, ours=loader is None)
    columns = None if found.manifest is None else found.manifest.columns
    reader = MinibatchReader(loader=loader, columns=columns)
    chunks = reader.read(found.files, SkipLog("raise"))
    return sum(len(from_bytes(chunk)) for chunk in chunks)


def _training(folder):
    """One epoch of LeNet from the start of the run to its end; the trainers are warm."""
    spark = sw.start_spark(workers=2)
    in_memory = sw.data.from_arrays(spark, *digits_arrays(12_000), partitions=2)
    url = f"{folder}/training"
    in_memory.export(url, batch_size=32)
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=32, seed=1)
    network = sw.SparkNetwork(spark, sw.networks.lenet(), master)
    network.fit(in_memory)
    sides = {
        "memory": lambda: network.fit(in_memory),
        "export": lambda: network.fit(sw.data.from_minibatches(spark, url)),
    }
    found = in_turn(REPEATS, sides)
    spark.stop()
    yield compared(
        "LeNet, an epoch of 12,000 from an export, against from memory",
        *("s", found["export"], found["memory"]),
        ratio=compared("", "", found["memory"], found["export"])["ratio"],
        target=">= 0.95",
        runs=found,
    )
