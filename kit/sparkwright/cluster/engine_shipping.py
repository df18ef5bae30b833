"""Brings the engine to executors that do not have it, and makes sure that they run the same."""

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
from .slots import tasks_to_ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIP = "spark.sparkwright.ship"
_log = logging.getLogger(__name__)
_LOOK_TIMEOUT_S = 20.0
# Two: executors may be long in coming, and shipping need not wait for them.
_shipping, _comparing = threading.Lock(), threading.Lock()
# Spark contexts whose executors get the engine, or have it; those whose executors were asked.
_shipped: WeakSet[Any] = WeakSet()
_compared: WeakSet[Any] = WeakSet()


def ship_engine(spark: "SparkSession") -> None:
    """Have Spark send this process's engine to the executors; once a session, later calls return.

    On this machine nothing is sent if the executors' Python finds the same files by itself. The
    setting `spark.sparkwright.ship` says otherwise: "auto" (default), "always" or "never".

    Raises:
        ConfigurationError: if the setting is none of these.
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
            _compared.add(context)  # the very same files
            return
        if is_connect(spark):
            with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
                context.addPyFile(str(write_archive(folder)))
        elif archive_name() not in context._python_includes:
            _add(context)
        _shipped.add(context)


def ensure_engine(spark: "SparkSession") -> None:
    """Ship the engine, then compare what the executors run with it: one small job a session.

    Raises:
        ConfigurationError: if an executor runs another engine, or none; both are named.
    """
    ship_engine(spark)
    context: Any = context_of(spark)
    with _comparing:
        if context in _compared:
            return
        slots = tasks_to_ask(spark)
        tasks = context.parallelize(range(slots), slots).mapPartitions(_asking(PACKAGE))
        check_same(own_engine(), tasks.collect())
        _compared.add(context)


def check_same(own: Look, answers: Iterable[Look]) -> None:
    """Compare the driver's engine with what executors found.

    Raises:
        ConfigurationError: naming both, and the host.
    """
    for answer in answers:
        if answer["fingerprint"] == own["fingerprint"]:
            continue
        found = _told(answer) if answer["where"] else "none"
        raise ConfigurationError(
            f"executors must run the driver's {PACKAGE}. Received: driver {_told(own)}, executor "
            f"on {answer['host']} {found}. Start the session without `{SHIP}=never`, so that the "
            f"driver sends its own; or install {PACKAGE} {own['version']} there from the same "
            "sources. If the code has changed meanwhile: `spark.stop()`, and start again."
        )


def _told(look: Look) -> str:
    return f"{look['version']} (fingerprint {look['fingerprint']}, {look['where']})"


def _asking(package: str) -> Callable[[Iterable[int]], Iterator[Look]]:
    find = engine_finder()

    def ask(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        import socket

        del numbers
        yield {**find(package), "files": {}, "host": socket.gethostname()}

    return ask


def _add(context: Any) -> None:
    # Spark's own folder for the session, which the JVM removes: executors that join later are
    # sent the file from there.
    archive = write_archive(context._temp_dir)
    before = list(sys.path)
    context.addPyFile(str(archive))
    # Spark puts it first for the driver too, whose own copy is compiled and stays.
    sys.path[:] = before
    _log.info("executors get %s %s", PACKAGE, archive.name)


def _finds_the_same(context: Any) -> bool:
    """Whether the executors' Python is of this machine and imports the driver's own files."""
    if not str(context.master).startswith("local"):
        return False
    code = (
        "import importlib.util as u; "
        f"s = u.find_spec({PACKAGE!r}); print(s.origin if s and s.origin else '')"
    )
    # -P: executors are started elsewhere, so what lies in this folder does not count.
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
    """Send what these modules define whole, wherever a network or a function mentions it.

    Layers, losses and functions defined in a notebook travel by themselves. Those of a module that
    lies beside it are sent by name, and an executor that cannot import the module fails. After this
    call they are sent like a notebook's own; a change counts from the next run on, if the module is
    reloaded. A function that itself imports such a module when called still needs it there: use
    `spark.sparkContext.addPyFile` for these.

    Args:
        modules: imported modules or packages; a package with all that is below it.

    Raises:
        ConfigurationError: if one is no module, or the engine itself, which goes by other ways.

    Example:
        import my_layers
        sw.spark.send_by_value(my_layers)
    """
    for module in modules:
        if not isinstance(module, ModuleType):
            raise ConfigurationError(
                "`send_by_value` takes imported modules. Received: "
                f"{type(module).__name__} {module!r}. Import it, and give the module."
            )
        if module.__name__.partition(".")[0] == "sparkwright":
            raise ConfigurationError(
                f"the engine goes to executors by itself. Received: {module.__name__}. Name your "
                "own modules only."
            )
    # Spark's closures and the engine's requests are pickled by two copies of the same library.
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        library = importlib.import_module(name)
        for module in modules:
            library.register_pickle_by_value(module)
