"""Where Spark is, and what its own file of defaults says, so that none of ours replaces it."""

import os
import re
from pathlib import Path


def spark_home() -> Path:
    """The folder of the Spark that PySpark starts."""
    # PySpark has no public function for it, and SPARK_HOME is not set by every way to start.
    from pyspark.find_spark_home import (
        _find_spark_home,  # pyright: ignore[reportPrivateUsage]
    )

    return Path(_find_spark_home())


def default_settings(home: Path) -> dict[str, str]:
    """All settings in spark-defaults.conf; none if there is no such file.

    Args:
        home: of Spark.
    """
    file = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            name, *value = re.split(r"[\s=]+", line, maxsplit=1)
            found[name] = value[0] if value else ""
    return found
