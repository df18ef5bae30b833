"""What is noted of the Spark session that a run used: its settings without secrets, Java."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark sets these by itself, differently each time, or they say nothing.
_OWN = {
    *("spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port"),
    *("spark.executor.id", "spark.rdd.compress", "spark.serializer.objectStreamReset"),
    *("spark.submit.pyFiles", "spark.submit.deployMode", "spark.sql.warehouse.dir"),
    *("spark.hadoop.fs.s3a.vectored.read.min.seek.size", "spark.master"),
    "spark.hadoop.fs.s3a.vectored.read.max.merged.size",
}
_SECRET = re.compile(
    r"secret|password|passwd|token|credential|(access|api|account|ssh)[._-]?key", re.IGNORECASE
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_JPMS = re.compile(
    r"-Djava\.net\.preferIPv6Addresses=\S+|-XX:\+IgnoreUnrecognizedVMOptions|"
    r"--(add-opens|add-modules|sun-misc-unsafe-memory-access)=\S+|--enable-native\S+|"
    r"-Djdk\.\S+|-Dio\.netty\.\S+"
)
_HIDDEN = "(hidden)"


def settings_to_tell(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Settings that somebody chose, by name; what looks like a secret is hidden.

    Args:
        pairs: name and value of all settings that are not Spark's defaults.

    Example:
        >>> settings_to_tell([("spark.executor.memory", "1g"), ("spark.app.id", "local-1")])
        {'spark.executor.memory': '1g'}
        >>> settings_to_tell([("spark.hadoop.fs.s3a.secret.key", "abc")])
        {'spark.hadoop.fs.s3a.secret.key': '(hidden)'}
    """
    found: dict[str, str] = {}
    for name, value in sorted(pairs):
        if name in _OWN:
            continue
        if name.endswith("JavaOptions"):
            value = " ".join(_JPMS.sub("", value).split())
            if not value:
                continue
        hides = _SECRET.search(name) or _SECRET.search(value)
        found[name] = _HIDDEN if hides else _IN_ADDRESS.sub(_HIDDEN, value)
    return found


def session_facts(spark: "SparkSession") -> dict[str, Any]:
    """JSON-able: `spark_master`, `spark_settings`, `spark_parallelism`, and Java's version."""
    context: Any = spark.sparkContext
    return {
        "spark_master": context.master,
        "spark_parallelism": context.defaultParallelism,
        "spark_settings": settings_to_tell(context.getConf().getAll()),
        "java": context._jvm.System.getProperty("java.version"),
    }
