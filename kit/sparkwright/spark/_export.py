"""Training from exported minibatches: each partition writes its own as Arrow files.

    DIRECTORY/RUN/part-00003-17/0000/minibatch-000017.arrow

Every file holds exactly a minibatch, but for the last of a partition: what a worker trains on
must not move to another.
"""

import os
import tempfile
import uuid
from typing import TYPE_CHECKING

from sparkwright.data._minibatches._export import write_partitions
from sparkwright.data._minibatches._visibility import check_visible
from sparkwright.storage._files import absolute, join, remove, remove_tree, write_bytes

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession


class Exports:
    """The exported minibatches of one network's runs."""

    def __init__(self, spark: "SparkSession") -> None:
        """None so far."""
        self._spark = spark
        self._folders: list[str] = []

    def write(
        self, rdd: "RDD[bytes]", *, directory: str | os.PathLike[str] | None, batch_size: int
    ) -> "RDD[str]":
        """Export `rdd` (a Spark job) and return an RDD of the paths, partition by partition.

        Args:
            rdd: chunks of examples.
            directory: a URL that all executors see; None: a temporary folder of this machine.
            batch_size: examples a file.

        Raises:
            ConfigurationError: if the executors do not see the directory.
        """
        parent = absolute(os.fspath(directory or tempfile.mkdtemp(prefix="sparkwright-export-")))
        folder = join(parent, uuid.uuid4().hex[:12])
        self._folders.append(folder if directory else parent)
        probe = join(folder, "probe")
        write_bytes(probe, folder.encode())
        check_visible(self._spark, probe)
        remove(probe)
        parts = write_partitions(
            self._spark, rdd, folder, batch_size=batch_size, leftovers_apart=False
        )
        paths = [[join(folder, file.path) for file in part.files] for part in parts]
        context = self._spark.sparkContext
        return context.parallelize(paths, len(paths)).flatMap(lambda partition: partition)

    def delete(self) -> bool:
        """Remove everything exported so far; True, also when there was nothing."""
        while self._folders:
            remove_tree(self._folders[-1])
            self._folders.pop()
        return True
