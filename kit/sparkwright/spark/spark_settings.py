"""Settings of a Spark session as a value, for forms, files and code."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.python_code import Expression, call_to_code, to_code

from ._session import start_spark
from .secrets import left_out, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHERE = "Where Spark runs"


@configuration
class SparkSettings(Configuration):
    """The arguments of `start_spark`, as a value.

    Secrets stay in memory. In dictionaries, JSON, YAML, code and `repr`, a placeholder replaces
    each setting whose name or value looks secret. Before starting Spark from such a file, set
    these values again, or keep them in Spark's `spark-defaults.conf`.

    Example:
        >>> SparkSettings(workers=4).to_code("spark")
        'spark = sw.start_spark(workers=4)'
    """

    _tagged: ClassVar[bool] = True

    workers: int = option(
        default=2,
        minimum=1,
        unit="executors",
        help="One executor for each worker; on this machine at most one per core.",
    )
    cores_per_worker: int = option(
        default=1,
        minimum=1,
        label="Cores per worker",
        help="More than 1 gives each executor several task slots, for more workers.",
    )
    memory_per_worker_mb: int = option(
        default=1024,
        minimum=512,
        label="Memory per worker",
        unit="MiB of JVM heap",
        help="Holds the data. TensorFlow needs at least 650 MiB more per worker.",
    )
    gpus_per_executor: int = option(
        default=0,
        minimum=0,
        label="GPUs per executor",
        help="0 trains on CPUs. Each worker uses one GPU exclusively.",
    )
    gpu_tasks: Literal["all", "networks"] = option(
        default="all",
        label="Tasks with a GPU",
        group=WHERE,
        help='"networks": tasks that only read and prepare data get no GPU and run on all cores.',
    )
    cpu_fallback: bool = option(
        default=False,
        label="Fall back to CPUs",
        group=WHERE,
        help="If off, too few GPUs raise an error before training starts.",
    )
    node_label: str | None = option(
        default=None,
        none_text="any machine",
        label="Node label",
        group=WHERE,
        help="On YARN: run executors only on nodes with this label, such as GPU nodes.",
    )
    master: str | None = option(
        default=None,
        none_text="this machine",
        label="Spark master",
        group=WHERE,
        help="spark://…, yarn or k8s://… for a cluster; local[2] to run in one process.",
    )
    settings: Mapping[str, Any] = option(
        default_factory=dict,
        form=False,
        help="Additional Spark settings by name: strings, numbers or booleans.",
    )

    def _check(self) -> None:
        if not isinstance(self.settings, Mapping):
            raise ConfigurationError(
                "`settings` must be Spark settings by name. "
                f"Received: a value of class {type(self.settings).__name__}."
            )
        plain = {name: _plain(name, value) for name, value in self.settings.items()}
        object.__setattr__(self, "settings", plain)

    def __repr__(self) -> str:
        """Return code without secrets."""
        return to_code(self, prefix="")

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of settings whose secret values were left out of the file."""
        return tuple(left_out(self.settings))

    def shown(self, name: str) -> Any:
        """Return the value of an option; secret-looking settings are replaced by a placeholder."""
        return without_secrets(self.settings) if name == "settings" else getattr(self, name)

    def to_code(self, variable: str = "spark", *, workers: str | None = None) -> str:
        """Return Python code that starts the session, after `import sparkwright as sw`.

        A placeholder replaces each value that looks secret; `start_spark` rejects it.

        Args:
            variable: name of the session; default "spark".
            workers: Python source, such as a name, to use instead of the number of workers; default
                None: the number.
        """
        given = {name: self.shown(name) for name in self.changed()}
        if workers is not None:
            given = {"workers": None} | given | {"workers": Expression(workers)}
        return call_to_code(f"{variable} = sw.start_spark", **given)

    def start(self) -> "SparkSession":
        """Start Spark, or return the active session; see `start_spark`.

        Raises:
            ConfigurationError: if settings were left out of a file and no session is active; the
                message names them.
        """
        return start_spark(**self.changed())


def _plain(name: Any, value: Any) -> str | bool | int | float:
    """Return the value as files store it."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"names of Spark settings must be strings. Received: {name!r}.")
    kinds: tuple[Any, ...] = (bool, int, str, float)
    for kind in kinds:
        if isinstance(value, kind) and (kind is not float or math.isfinite(value)):
            return kind(value)
    # Only the class: the value may be a secret.
    raise ConfigurationError(
        "values of Spark settings must be strings, booleans or finite numbers. Received: "
        f"settings[{name!r}], of class {type(value).__name__}. Write it as Spark takes it."
    )
