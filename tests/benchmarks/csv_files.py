"""A large CSV file to minibatches, against `pyarrow.csv.read_csv` and its conversion to NumPy."""

import os
import tempfile
from pathlib import Path

import numpy as np
from tests.benchmarks._harness import compared, in_turn, rates

import sparkwright as sw

REPEATS = 3
COLUMNS = 20
CLASSES = 10
BATCH_SIZE = 256
SIZE_BYTES = int(float(os.environ.get("CSV_GB", 1)) * 1e9)


def csv_files():
    """MB/s from a file of floats and a label to minibatches in tasks."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-benchmark-") as folder:
        whole = Path(folder) / "whole.csv"
        _write(whole, SIZE_BYTES)
        size_mb = whole.stat().st_size / 1e6
        spark = sw.start_spark(workers=2)
        _minibatches(spark, whole)  # starts the Python workers
        sides = {
            "pyarrow": lambda: _read_with_pyarrow(whole),
            "ours": lambda: _minibatches(spark, whole),
        }
        found = rates(size_mb, in_turn(REPEATS, sides))
        spark.stop()
    yield compared(
        f"CSV of {size_mb / 1e3:.2g} GB to minibatches of {BATCH_SIZE}, 2 workers",
        *("MB/s", found["ours"], found["pyarrow"]),
        target=">= 0.8",
        runs=found,
    )


def _minibatches(spark, path):
    """Read a file and cut it into minibatches in the tasks; the number of examples."""
    data = sw.data.from_csv(spark, str(path), labels=-1, classes=CLASSES)

    def count(chunks):
        datasets = map(sw.data.from_bytes, chunks)
        yield sum(len(batch) for batch in sw.data.batched(datasets, BATCH_SIZE))

    return sum(data.rdd.mapPartitions(count).collect())


def _read_with_pyarrow(path):
    """The same arrays, whole, by as many threads as there are workers; how many examples."""
    import pyarrow as pa
    from pyarrow import csv

    pa.set_cpu_count(2)
    table = csv.read_csv(path)
    features = np.empty((table.num_rows, COLUMNS), np.float32)
    for index in range(COLUMNS):
        features[:, index] = table.column(index).to_numpy()
    labels = table.column(COLUMNS).to_numpy().astype(np.int32)
    return min(len(features), len(labels))


def _write(path, size_bytes):
    """A file of about so many bytes, the same each time."""
    random = np.random.default_rng(1)
    names = [f"feature_{index}" for index in range(COLUMNS)]
    block_rows = 20_000
    features = random.normal(size=(block_rows, COLUMNS))
    labels = random.integers(0, CLASSES, block_rows)
    lines = "".join(
        ",".join(f"{value:.6f}" for value in row) + f",{label}\n"
        for row, label in zip(features.tolist(), labels.tolist(), strict=True)
    ).encode()
    with path.open("wb") as file:
        file.write((",".join([*names, "label"]) + "\n").encode())
        while file.tell() < size_bytes:
            file.write(lines)
