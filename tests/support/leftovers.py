"""What runs leave behind in the folders of executors."""

import contextlib
import fnmatch
import os
import time

import psutil


def shards_that_stay(executors, seconds=20):
    """The files that neither tasks nor idle trainers, one of which may be starting, remove."""
    deadline_s = time.monotonic() + seconds
    while (left := {*shards_of(executors)}) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    return left


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
