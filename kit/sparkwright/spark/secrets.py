"""Recognize secrets among Spark's settings, and describe a session without them."""

import platform
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sparkwright._version import __version__
from sparkwright.cluster.connect import context_of, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDDEN = "(hidden)"
# Placeholder for a secret in files and code.
LEFT_OUT = "(left out, because it looks secret: put its value here)"
_SECRET_PARTS = re.compile(
    r"secret|passw|passphrase|passcode|pwd|pgpass|token|credential|signature|private", re.IGNORECASE
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = {"pass", "sas", "sig", "key", "keys", "authorization"}
# A name that ends with one of these words describes a secret without containing it.
_ABOUT = {"class", "enabled", "impl", "interval", "path", "provider", "providers", "size", "type"}
# A key of one of these is not a secret: it belongs to an algorithm or a table.
_NO_KEY = {"algorithm", "bits", "dedup", "gen", "provider", "size", "store"}
_NAMED = (
    r"secret|passw(?:or)?d|passphrase|passcode|pwd|(?<!by)(?<!com)pass|token|credential|signature|"
    r"private|(?<![a-z])(?:sig|sas|authorization)|"
    r"(?:access|account|api|encryption|shared|signing|ssh)[._-]?key"
)
_SECRET_VALUE = re.compile(
    rf"(?:{_NAMED})[\w.-]*[\"']?\s*[=:\s]\s*\S|"
    r"[?&;,]\s*key=|\b(?:bearer|basic)\s+\S|-----BEGIN|\beyJ[\w-]{8,}\.|\bA[KS]IA[0-9A-Z]{16}\b",
    re.IGNORECASE,
)
# A password before a host; digits are a port.
_IN_ADDRESS = re.compile(r"://[^/\s@:]*:(?!\d+(?:[/,\s]|$))[^\s@]+@")
# Spark sets these itself, with changing or uninformative values.
_OWN = {
    *("spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port"),
    *("spark.executor.id", "spark.rdd.compress", "spark.serializer.objectStreamReset"),
    *("spark.submit.pyFiles", "spark.submit.deployMode", "spark.sql.warehouse.dir"),
    *("spark.hadoop.fs.s3a.vectored.read.min.seek.size", "spark.master"),
    "spark.hadoop.fs.s3a.vectored.read.max.merged.size",
}
# Values of these settings are shown unless they look secret. Values of all other settings, such as
# those of stores or custom ones, are hidden.
_HARMLESS = re.compile(
    r"spark\.(app|archives|broadcast|buffer|cleaner|cores|default|driver|dynamicAllocation|"
    r"eventLog|executor|files|io|jars|kryo|kryoserializer|locality|log|memory|network|pyspark|"
    r"python|r|rdd|reducer|resources|rpc|scheduler|serializer|shuffle|speculation|sql|stage|"
    r"storage|submit|task|ui|worker|yarn)\b|"
    r"spark\.executorEnv\.(HADOOP_CONF_DIR|HADOOP_USER_NAME|JAVA_HOME|PYTHONPATH|LD_LIBRARY_PATH|"
    r"OMP_NUM_THREADS|TF_\w+|CUDA_\w+|SPARKWRIGHT_\w+)$|"
    r"spark\.hadoop\.(dfs\.|fs\.defaultFS$|fs\.s3a\.(endpoint|path\.style\.access|impl)\b)"
)
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_JPMS = re.compile(
    r"-Djava\.net\.preferIPv6Addresses=\S+|-XX:\+IgnoreUnrecognizedVMOptions|"
    r"--(add-opens|add-modules|sun-misc-unsafe-memory-access)=\S+|--enable-native\S+|"
    r"-Djdk\.\S+|-Dio\.netty\.\S+"
)


def looks_secret(name: str, value: Any) -> bool:
    """Return whether a setting may contain a secret; errs on the side of hiding.

    Args:
        name: name of the setting.
        value: value of the setting; booleans, also as strings, are not secret.

    Example:
        >>> looks_secret("spark.hadoop.fs.s3a.secret.key", "abc")
        True
        >>> looks_secret("spark.jars.repositories", "https://ann:abc@maven.example/x")
        True
        >>> looks_secret("spark.executor.memory", "1g")
        False
    """
    text = str(value)
    if text.lower() in ("true", "false"):
        return False
    return _names_secret(name) or bool(_SECRET_VALUE.search(text) or _IN_ADDRESS.search(text))


def without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings, with a placeholder for each value that looks secret."""
    return {
        name: LEFT_OUT if looks_secret(name, value) else value for name, value in settings.items()
    }


def left_out(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of settings that still contain the placeholder."""
    return [name for name, value in settings.items() if value == LEFT_OUT]


def _names_secret(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if words and words[-1] in _ABOUT:
        return False
    if _SECRET_PARTS.search(name):
        return True
    for word, following in zip(words, [*words[1:], ""], strict=False):
        is_key = word.endswith(("key", "keys"))
        if is_key and following not in _NO_KEY:
            return True
        if not is_key and (word in _SECRET_WORDS or _ends_with_pass(word)):
            return True
    return False


def _ends_with_pass(word: str) -> bool:
    return word.endswith("pass") and word not in ("bypass", "compass")


def settings_to_show(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the settings chosen by the user; values not known to be harmless are hidden.

    Args:
        pairs: name and value of all settings that differ from Spark's defaults.

    Example:
        >>> settings_to_show([("spark.executor.memory", "1g"), ("spark.app.id", "local-1")])
        {'spark.executor.memory': '1g'}
        >>> settings_to_show([("spark.hadoop.fs.s3a.secret.key", "abc")])
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
        found[name] = _USER_IN_ADDRESS.sub(HIDDEN, value) if tells else HIDDEN
    return found


def session_facts(spark: "SparkSession") -> dict[str, Any]:
    """Return the master, parallelism and settings of Spark, and versions of the driver."""
    import keras
    import pyspark

    context: Any = context_of(spark)
    return {
        "spark_master": context.master,
        "spark_parallelism": context.defaultParallelism,
        "spark_settings": settings_to_show(context.getConf().getAll()),
        "java": None if is_connect(spark) else context._jvm.System.getProperty("java.version"),
        "environment": {
            "sparkwright": __version__,
            "python": platform.python_version(),
            "keras": keras.__version__,
            "pyspark": pyspark.__version__,
            "platform": platform.platform(),
        },
    }
