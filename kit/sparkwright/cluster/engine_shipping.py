"""Ship the package to executors that lack it, and check that all run the same sources."""

import importlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from sparkwright.cluster.engine_archive import (
    PACKAGE,
    Look,
    archive_name,
    engine_finder,
    own_engine,
    write_archive,
)
from sparkwright.errors import ConfigurationError

from .connect import context_of, is_connect
from .slots import tasks_to_reach_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIP = "spark.sparkwright.ship"
_log = logging.getLogger(__name__)
_LOOK_TIMEOUT_S = 20.0
# Two locks: the comparison may wait for executors, and shipping must not.
_shipping, _comparing = threading.Lock(), threading.Lock()
# Spark contexts whose executors receive or have the package; contexts whose executors were checked.
_shipped: WeakSet[Any] = WeakSet()
_compared: WeakSet[Any] = WeakSet()


def ship_engine(spark: "SparkSession") -> None:
    """Ship this process' package to the executors, once per session.

    On this machine, nothing is sent if the executors' Python imports the same files. The setting
    `spark.sparkwright.ship` is "auto" (default), "always" or "never".
    """
    context: Any = context_of(spark)
    with _shipping:
        if context in _shipped:
            return
        choice = context.getConf().get(SHIP, "auto")
        if choice not in ("auto", "always", "never"):
            raise ConfigurationError(
                f'`{SHIP}` must be "auto", "always" or "never". Received: {choice!r}.'
            )
        if choice == "never":
            _shipped.add(context)
            return
        if choice == "auto" and not is_connect(spark) and _finds_the_same(context):
            _shipped.add(context)
            _compared.add(context)  # the same files
            return
        if is_connect(spark):
            with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
                context.addPyFile(str(write_archive(folder)))
        elif archive_name() not in context._python_includes:
            _add(context)
        _shipped.add(context)


def ensure_engine(spark: "SparkSession") -> None:
    """Ship the package and check the executors' version by one small job per session."""
    ship_engine(spark)
    context: Any = context_of(spark)
    with _comparing:
        if context in _compared:
            return
        slots = tasks_to_reach_all(spark)
        tasks = context.parallelize(range(slots), slots).mapPartitions(_asking(PACKAGE))
        check_same(own_engine(), tasks.collect())
        _compared.add(context)


def check_same(own: Look, answers: Iterable[Look]) -> None:
    """Compare the driver's package with the answers of executors."""
    for answer in answers:
        if answer["fingerprint"] == own["fingerprint"]:
            continue
        found = _text(answer) if answer["where"] else "none"
        raise ConfigurationError(
            f"executors must run the driver's {PACKAGE}. Received: driver {_text(own)}, executor "
            f"on {answer['host']} {found}. Start the session without `{SHIP}=never`, so that the "
            f"driver ships it; or install {PACKAGE} {own['version']} there from the same "
            "sources. If the code has changed in the meantime, call `spark.stop()` and restart."
        )


def _text(look: Look) -> str:
    return f"{look['version']} (fingerprint {look['fingerprint']}, {look['where']})"


def _asking(package: str) -> Callable[[Iterable[int]], Iterator[Look]]:
    find = engine_finder()

    def ask(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        import socket

        del numbers
        yield {**find(package), "files": {}, "host": socket.gethostname()}

    return ask


def _add(context: Any) -> None:
    # Spark's folder for the session, which the JVM deletes: executors that join later get the file
    # from there.
    archive = write_archive(context._temp_dir)
    before = list(sys.path)
    context.addPyFile(str(archive))
    # Spark also puts it first on the driver's path; keep the driver's own compiled copy.
    sys.path[:] = before
    _log.info("executors get %s %s", PACKAGE, archive.name)


def _finds_the_same(context: Any) -> bool:
    """Return whether the executors' Python is local and imports the driver's own files."""
    if not str(context.master).startswith("local"):
        return False
    code = (
        "import importlib.util as u; "
        f"s = u.find_spec({PACKAGE!r}); print(s.origin if s and s.origin else '')"
    )
    # -P: ignore the current folder, because executors start in another one.
    command = [context.pythonExec, "-P", "-c", code]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_LOOK_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found, own = done.stdout.strip(), str(Path(__file__).parents[1] / "__init__.py")
    return bool(found) and os.path.realpath(found) == os.path.realpath(own)


def send_by_value(*modules: ModuleType) -> None:
    """Pickle everything that these modules define by value.

    Layers, losses and functions defined in a notebook are pickled by value. Those of a module next
    to it are pickled by name, so an executor that cannot import the module fails. This call makes
    Spark pickle them by value too; changes apply from the next run if the module is reloaded. A
    function that imports such a module when called still needs it on the executor: use
    `spark.sparkContext.addPyFile`.

    Args:
        modules: imported modules or packages; a package includes its submodules.

    Raises:
        ConfigurationError: if an argument is not a module, or is sparkwright itself.

    Example:
        import my_layers
        sw.spark.send_by_value(my_layers)
    """
    for module in modules:
        if not isinstance(module, ModuleType):
            raise ConfigurationError(
                "`send_by_value` needs imported modules. Received: "
                f"{type(module).__name__} {module!r}. Import the module and pass it."
            )
        if module.__name__.partition(".")[0] == "sparkwright":
            raise ConfigurationError(
                f"sparkwright is shipped automatically. Received: {module.__name__}. Pass only "
                "your own modules."
            )
    # Spark's closures and sparkwright's requests use two copies of cloudpickle.
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        library = importlib.import_module(name)
        for module in modules:
            library.register_pickle_by_value(module)
