"""Whether executors see the files that the driver sees, asked before anything depends on it."""

import hashlib
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sparkwright.errors import ConfigurationError
from sparkwright.storage._files import open_to_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBED_BYTES = 1 << 20
_NAMED = 5


def check_visible(spark: "SparkSession", url: str) -> None:
    """Have the executors read a file and compare it with what the driver reads; a Spark job.

    One task for each slot, which Spark deals out over the executors.

    Args:
        spark: the session; nothing happens if all of Spark runs on this machine.
        url: a file that the driver sees.

    Raises:
        ConfigurationError: naming the hosts that do not see it, or see another one.
        OSError: if the driver does not see it.
    """
    from sparkwright.spark._slots import is_local

    if not is_local(spark):
        ask_executors(spark, url, digest_of(url))


def check_any_visible(spark: "SparkSession", urls: Sequence[str]) -> None:
    """`check_visible` for the first of `urls` that the driver can read, if there is one.

    Raises:
        ConfigurationError: naming the hosts that do not see it, or see another one.
    """
    from sparkwright.spark._slots import is_local

    if is_local(spark):
        return
    for url in urls:
        try:
            digest = digest_of(url)
        except OSError:
            continue
        ask_executors(spark, url, digest)
        return


def ask_executors(spark: "SparkSession", url: str, digest: str) -> None:
    """`check_visible` wherever Spark runs.

    Raises:
        ConfigurationError: naming the hosts whose file has not this digest.
    """
    from sparkwright.spark._jobs import run_job
    from sparkwright.spark._slots import tasks_to_ask

    def look(_: object) -> Iterator[tuple[str, str]]:
        try:
            found = digest_of(url)
            problem = "" if found == digest else "another file is there"
        except Exception as error:  # stores raise errors of their own kinds
            problem = f"{type(error).__name__}: {error}"
        yield socket.gethostname(), problem

    context = spark.sparkContext
    slots = tasks_to_ask(spark)
    tasks = context.parallelize(range(slots), slots).mapPartitions(look)
    answers = run_job(spark, tasks.collect, description="check that executors see the files")
    problems = {host: problem for host, problem in answers if problem}
    if problems:
        hosts = "; ".join(f"{host} ({why})" for host, why in sorted(problems.items())[:_NAMED])
        more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise ConfigurationError(
            "every executor must see the files that the driver sees. Received: "
            f"{url}, which these hosts do not: {hosts}{more}. Use a store that all reach "
            "(hdfs://…, s3://…), or a folder that is mounted at the same place everywhere."
        )


def digest_of(url: str) -> str:
    """SHA-256 of a file's first mebibyte."""
    with open_to_read(url) as file:
        return hashlib.sha256(file.read(_PROBED_BYTES)).hexdigest()
