"""What is noted of the Spark session that a run used: its settings without secrets, Java."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._secrets import HIDDEN, looks_secret

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
# What these say of memory, cores and ways to work is told, unless it looks secret. What others
# say, such as those of a store or somebody's own, nobody here can judge.
_HARMLESS = re.compile(
    r"spark\.(app|archives|broadcast|buffer|cleaner|cores|default|driver|dynamicAllocation|"
    r"eventLog|executor|files|io|jars|kryo|kryoserializer|locality|log|memory|network|pyspark|"
    r"python|r|rdd|reducer|resources|rpc|scheduler|serializer|shuffle|speculation|sql|stage|"
    r"storage|submit|task|ui|worker|yarn)\b|"
    r"spark\.executorEnv\.(HADOOP_CONF_DIR|HADOOP_USER_NAME|JAVA_HOME|PYTHONPATH|LD_LIBRARY_PATH|"
    r"OMP_NUM_THREADS|TF_\w+|CUDA_\w+|SPARKWRIGHT_\w+)$|"
    r"spark\.hadoop\.(dfs\.|fs\.defaultFS$|fs\.s3a\.(endpoint|path\.style\.access|impl)\b)"
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_JPMS = re.compile(
    r"-Djava\.net\.preferIPv6Addresses=\S+|-XX:\+IgnoreUnrecognizedVMOptions|"
    r"--(add-opens|add-modules|sun-misc-unsafe-memory-access)=\S+|--enable-native\S+|"
    r"-Djdk\.\S+|-Dio\.netty\.\S+"
)


def settings_to_tell(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Settings that somebody chose, by name; only values known to be harmless are told.

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
        tells = _HARMLESS.match(name) and not looks_secret(name, value)
        found[name] = _IN_ADDRESS.sub(HIDDEN, value) if tells else HIDDEN
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
