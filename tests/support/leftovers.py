"""What runs leave behind in the folders of executors."""

import contextlib
import fnmatch
import os

import psutil


def shards_of(executors):
    """The files of partitions that these processes keep."""
    for executor in executors:
        with contextlib.suppress(psutil.Error):
            folders = executor.environ().get("SPARK_EXECUTOR_DIRS", "")
            for folder in filter(None, folders.split(os.pathsep)):
                for place, inner, names in os.walk(folder):  # which passes over what has vanished
                    # Of a shard: the name says what it holds. Spark keeps the engine's archive
                    # there, too.
                    for name in fnmatch.filter([*inner, *names], "sparkwright-*-*"):
                        yield f"{place}/{name}"
