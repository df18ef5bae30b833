"""A home of its own for a local cluster, because Spark keeps the executors' folders there."""

import atexit
import contextlib
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

from sparkwright.workers.folders import own_folder, release

from ._defaults import spark_home

_VARIABLE = "SPARK_HOME"


@contextlib.contextmanager
def own_home(master: str) -> Generator[None]:
    """Within the block, a JVM for a local cluster starts with a home of links to Spark's."""
    from pyspark import SparkContext

    is_there: bool = SparkContext._gateway is not None  # pyright: ignore[reportPrivateUsage]
    if is_there or not master.startswith("local-cluster"):
        yield
        return
    # So nothing is written to the installed package.
    home = own_folder("spark")
    for found in spark_home().iterdir():
        if found.name != "work":
            (home / found.name).symlink_to(found)
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(home)
    atexit.register(_leave, home)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before


def _leave(home: Path) -> None:
    """End the session, whose executors use the home, and remove the home."""
    from pyspark import SparkContext

    active: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    with contextlib.suppress(Exception, KeyboardInterrupt):
        if active is not None:
            active.stop()
    release(home)
    shutil.rmtree(home, ignore_errors=True)
