"""Settings from elsewhere: Spark's file of defaults, `spark-submit`, an earlier session."""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

# Names that Java got as it was started: they are its system properties, from which each SparkConf
# begins.
_given: set[str] = set()
# The script's own file name, and what `start_spark` reads for itself.
_LEFT = {"spark.app.name", "spark.master"}


def spark_home() -> Path:
    """The folder of the Spark that PySpark starts."""
    # PySpark has no public function for it, and SPARK_HOME is not set by every way to start.
    from pyspark.find_spark_home import (
        _find_spark_home,  # pyright: ignore[reportPrivateUsage]
    )

    return Path(_find_spark_home())


def default_settings(home: Path) -> dict[str, str]:
    """All settings in spark-defaults.conf; none if there is no such file."""
    file = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            name, *value = re.split(r"[\s=]+", line, maxsplit=1)
            found[name] = value[0] if value else ""
    return found


def forget_earlier_settings(names: Collection[str]) -> None:
    """Take from Java what the session that started it chose; called before each session.

    A later session would otherwise keep the cores, GPUs or addresses of the first, wherever it does
    not say something else itself.
    """
    import pyspark

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # `spark-submit` has started Java, and what it was told counts for all sessions
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
    """All settings that came from `spark-submit`; none in a notebook or a plain Python process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    # Connects to the JVM that runs this script; without one SparkConf knows no settings.
    SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage]
    return dict(SparkConf().getAll())


def over(chosen: dict[str, str], submitted: dict[str, str]) -> dict[str, str]:
    """Settings that suit training, and what `spark-submit` was told in place of them.

    Example:
        >>> over({"spark.task.maxFailures": "4"}, {"spark.task.maxFailures": "9"})
        {'spark.task.maxFailures': '9'}
        >>> over({"spark.app.name": "sparkwright"}, {"spark.app.name": "train.py"})
        {'spark.app.name': 'sparkwright'}
    """
    return {**chosen, **{name: text for name, text in submitted.items() if name not in _LEFT}}
