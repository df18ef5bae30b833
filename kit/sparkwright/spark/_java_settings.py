"""Settings of a kernel's first session, which Java would hand on to all later ones."""

import os
from collections.abc import Collection
from typing import Any

from ._spark_defaults import default_settings, spark_home

# Names that Java got as it was started: they are its system properties, from which each SparkConf
# begins.
_given: set[str] = set()


def forget_earlier_settings(names: Collection[str]) -> None:
    """Take from Java what the session that started it chose; called before each session.

    A later session would otherwise keep the cores, GPUs or addresses of the first, wherever it does
    not say something else itself.

    Args:
        names: of the settings that are chosen now.
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
