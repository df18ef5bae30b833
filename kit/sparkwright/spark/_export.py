"""Training from exported minibatches: each partition writes its own as Arrow files.

    DIRECTORY/RUN/part-00003/0000/minibatch-000017.arrow

Every file holds exactly a minibatch, but for the last of a partition. Folders hold at most a
thousand files: HDFS allows 1,048,576 entries a folder, and listing far fewer is slow already.
"""

import tempfile
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sparkwright.data import batched, from_bytes, to_bytes
from sparkwright.errors import ConfigurationError
from sparkwright.storage._files import (
    is_on_this_machine,
    remove_tree,
    write_atomically,
)

from ._jobs import run_job
from ._slots import is_local

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_FILES_A_FOLDER = 1000


class Exports:
    """The exported minibatches of one network's runs."""

    def __init__(self, spark: "SparkSession") -> None:
        """None so far."""
        self._spark = spark
        self._folders: list[str] = []

    def write(self, rdd: "RDD[bytes]", *, directory: str | None, batch_size: int) -> "RDD[str]":
        """Export `rdd` (a Spark job) and return an RDD of the paths, partition by partition.

        Args:
            rdd: chunks of examples.
            directory: a URL that all executors see; None: a temporary folder of this machine.
            batch_size: examples a file.

        Raises:
            ConfigurationError: if the executors would not see the directory.
        """
        if (directory is None or is_on_this_machine(directory)) and not is_local(self._spark):
            raise ConfigurationError(
                'with `training_approach="export"` on a cluster, `export_directory` must be a URL '
                f"that every executor sees. Received: export_directory={directory!r} with master "
                f"{self._spark.sparkContext.master}. Use hdfs://… or s3://…, or "
                '`training_approach="direct"`.'
            )
        parent = directory or tempfile.mkdtemp(prefix="sparkwright-export-")
        folder = f"{parent.rstrip('/')}/{uuid.uuid4().hex[:12]}"
        self._folders.append(folder if directory else parent)
        written = run_job(
            self._spark,
            lambda: rdd.mapPartitionsWithIndex(_writer(folder, batch_size)).collect(),
            description="export minibatches",
        )
        paths = [found for _, found in sorted(written)]
        context = self._spark.sparkContext
        return context.parallelize(paths, len(paths)).flatMap(lambda partition: partition)

    def delete(self) -> bool:
        """Remove everything exported so far; True, also when there was nothing."""
        while self._folders:
            remove_tree(self._folders[-1])
            self._folders.pop()
        return True


def _writer(
    folder: str, batch_size: int
) -> Callable[[int, Iterable[bytes]], list[tuple[int, list[str]]]]:
    def write(index: int, chunks: Iterable[bytes]) -> list[tuple[int, list[str]]]:
        paths: list[str] = []
        for number, minibatch in enumerate(batched(map(from_bytes, chunks), batch_size)):
            place = f"part-{index:05d}/{number // _FILES_A_FOLDER:04d}"
            path = f"{folder}/{place}/minibatch-{number:06d}.arrow"
            with write_atomically(path) as file:
                file.write(to_bytes(minibatch))
            paths.append(path)
        return [(index, paths)]

    return write
