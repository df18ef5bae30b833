"""Spark's JVM: its settings from files and earlier sessions, its start, its log and its home."""

import atexit
import contextlib
import os
import re
import tempfile
from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Any

from sparkwright._notices import pass_on
from sparkwright._open_files import ROOM_BYTES, write_room
from sparkwright.errors import ConfigurationError
from sparkwright.workers.folders import own_folder, remove

_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_VARIABLES = ("SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_LEVEL = "spark.log.level"
# The JVM prints this for a module that Spark's own options add.
_NOTICES = re.compile(rb"WARNING: Using incubator modules: ")
# Settings given to the JVM at its start, as system properties; each new SparkConf contains them.
_given: set[str] = set()
# Not taken from `spark-submit`: the script's file name, and the master, read by `start_spark`.
_LEFT = {"spark.app.name", "spark.master"}


def configures_log(settings: Mapping[str, str]) -> bool:
    """Return whether the user configured the driver's log by a setting, an option or a file."""
    home = spark_home()
    found = {**default_settings(home), **settings}
    options = [found.get(name, "") for name in _OPTIONS]
    options += [os.environ.get(name, "") for name in _VARIABLES]
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    files = [file for file in folder.glob("log4j*") if file.suffix != ".template"]
    return _LEVEL in found or bool(files) or any("log4j" in text for text in options)


def check_room() -> None:
    """Raise if the folder for temporary files is full: PySpark would wait for Java without end."""
    try:
        write_room()
    except OSError as error:
        folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
        raise ConfigurationError(
            f"Spark needs {ROOM_BYTES >> 20} MiB for temporary files. Received: {folder}: "
            f"{error.strerror}. Free space there, or set TMPDIR to a folder of another disk before "
            "Python starts."
        ) from error


def forget_ended_java() -> None:
    """Let PySpark start another JVM if that of this process has ended: its `stop` would fail."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    session: Any = SparkSession
    process = getattr(context._gateway, "proc", None)
    if process is None or process.poll() is None:
        return
    if (active := context._active_spark_context) is not None:
        active._jsc = None
        active.stop()
    process.stdin.close()
    context._gateway = context._jvm = None
    session._instantiatedSession = session._activeSession = None


def start_java(settings: Mapping[str, str]) -> None:
    """Start the JVM with logging at level ERROR, unless it runs or the user configured logging."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    context: Any = SparkContext
    is_there = context._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    if is_there or configures_log(settings) or not _CONFIGURATION.is_file():
        return
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    name = "SPARK_SUBMIT_OPTS"
    before = os.environ.get(name)
    source, target = os.pipe()
    # Filter in this process, so that no output of the JVM reaches the terminal after it ends.
    pass_on(source, _NOTICES, 2)
    # An environment variable leaves the session's settings unchanged.
    os.environ[name] = f"-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()} {before or ''}"
    try:
        gateway = launch_gateway(conf, {"stderr": target})
    finally:
        os.close(target)
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
    context._ensure_initialized(gateway=gateway)


_VARIABLE = "SPARK_HOME"


@contextlib.contextmanager
def own_home(master: str) -> Generator[None]:
    """Within the block, a JVM for a local cluster starts with a home of links to Spark's."""
    from pyspark import SparkContext

    is_there: bool = SparkContext._gateway is not None  # pyright: ignore[reportPrivateUsage]
    if is_there or not master.startswith("local-cluster"):
        yield
        return
    # So nothing is written to the installed package.
    home = own_folder("spark")
    for found in spark_home().iterdir():
        if found.name != "work":
            (home / found.name).symlink_to(found)
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(home)
    atexit.register(_leave, home)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before


def _leave(home: Path) -> None:
    """End the session, whose executors use the home, and remove the home."""
    from pyspark import SparkContext

    active: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    with contextlib.suppress(Exception, KeyboardInterrupt):
        if active is not None:
            active.stop()
    remove(home)


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
