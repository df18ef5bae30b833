"""Which settings Spark's own file of defaults makes, so that none of ours replaces them."""

import os
from pathlib import Path


def spark_home() -> Path:
    """The folder of the Spark that PySpark starts."""
    # PySpark has no public function for it, and SPARK_HOME is not set by every way to start.
    from pyspark.find_spark_home import (
        _find_spark_home,  # pyright: ignore[reportPrivateUsage]
    )

    return Path(_find_spark_home())


def default_names(home: Path) -> set[str]:
    """Names of all settings in spark-defaults.conf; none if there is no such file.

    Args:
        home: of Spark.
    """
    file = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    lines = (line.strip() for line in text.splitlines())
    return {
        line.replace("=", " ").split()[0] for line in lines if line and not line.startswith("#")
    }
