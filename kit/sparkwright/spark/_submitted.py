"""What `spark-submit` was told, for a script that it runs."""

import os

# The script's own file name, and what `start_spark` reads for itself.
_LEFT = {"spark.app.name", "spark.master"}


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
