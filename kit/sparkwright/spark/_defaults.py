"""Settings from spark-defaults.conf, `spark-submit` and earlier sessions."""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

# Settings given to the JVM at its start, as system properties; each new SparkConf contains them.
_given: set[str] = set()
# Not taken from `spark-submit`: the script's file name, and the master, read by `start_spark`.
_LEFT = {"spark.app.name", "spark.master"}


def spark_home() -> Path:
    """Return the installation folder of the Spark that PySpark starts."""
    # PySpark has no public function for this, and SPARK_HOME is not always set.
    from pyspark.find_spark_home import (
        _find_spark_home,  # pyright: ignore[reportPrivateUsage]
    )

    return Path(_find_spark_home())


def default_settings(home: Path) -> dict[str, str]:
    """Return all settings of spark-defaults.conf; {} if there is no such file."""
    file = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            name, *value = re.split(r"[\s=]+", line, maxsplit=1)
            found[name] = value[0] if value else ""
    return found


def forget_earlier_settings(names: Collection[str]) -> None:
    """Reset the JVM's properties from an earlier session, which a later one would keep."""
    import pyspark

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # settings of `spark-submit` apply to all sessions
    context: Any = pyspark.SparkContext
    java = context._jvm
    if java is None:
        _given.update(names)
        return
    defaults = default_settings(spark_home()) if _given else {}
    for name in _given:
        if name in defaults:
            java.java.lang.System.setProperty(name, defaults[name])
        else:
            java.java.lang.System.clearProperty(name)
    _given.clear()


def submitted_settings() -> dict[str, str]:
    """Return the settings from `spark-submit`; {} in a notebook or a plain Python process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    # Connect to the JVM of this script: without it, SparkConf is empty.
    SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage]
    return dict(SparkConf().getAll())


def over(chosen: dict[str, str], submitted: dict[str, str]) -> dict[str, str]:
    """Return training settings overridden by those of `spark-submit`.

    Example:
        >>> over({"spark.task.maxFailures": "4"}, {"spark.task.maxFailures": "9"})
        {'spark.task.maxFailures': '9'}
        >>> over({"spark.app.name": "sparkwright"}, {"spark.app.name": "train.py"})
        {'spark.app.name': 'sparkwright'}
    """
    return {**chosen, **{name: text for name, text in submitted.items() if name not in _LEFT}}
