"""How Spark is to be started, as a plain value that forms, files and code share."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sparkwright.configuration import (
    Configuration,
    Expression,
    call_to_code,
    configuration,
    option,
    to_code,
)
from sparkwright.errors import ConfigurationError

from ._session import start_spark
from .secrets import left_out, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHERE = "Where Spark runs"


@configuration
class SparkSettings(Configuration):
    """The arguments of `start_spark`, as a value.

    Secrets stay in memory: in dictionaries, JSON, YAML, code and the text of the value, a sentence
    stands where a setting looks secret by its name or value. Whoever starts Spark from such a file
    gives the values again, or keeps them in Spark's own `spark-defaults.conf`.

    Example:
        >>> SparkSettings(workers=4).to_code("spark")
        'spark = sw.start_spark(workers=4)'
    """

    _tagged: ClassVar[bool] = True

    workers: int = option(
        default=2,
        minimum=1,
        unit="executors",
        help="One executor for each worker of a training; on this machine at most one a core.",
    )
    cores_per_worker: int = option(
        default=1,
        minimum=1,
        label="Cores per worker",
        help="More than 1 gives each executor several task slots, and so room for more workers.",
    )
    memory_per_worker_mb: int = option(
        default=1024,
        minimum=512,
        label="Memory per worker",
        unit="MiB of JVM heap",
        help="Holds the data. TensorFlow's memory, 650 MiB or more a worker, comes on top.",
    )
    gpus_per_executor: int = option(
        default=0,
        minimum=0,
        label="GPUs per executor",
        help="0 trains on CPUs. Each worker has one GPU to itself.",
    )
    gpu_tasks: Literal["all", "networks"] = option(
        default="all",
        label="Tasks with a GPU",
        group=WHERE,
        help='"networks": tasks that only read and prepare data need none, and run on all cores.',
    )
    cpu_fallback: bool = option(
        default=False,
        label="CPUs where GPUs are missing",
        group=WHERE,
        help="Without it, too few GPUs are an error before training starts.",
    )
    node_label: str | None = option(
        default=None,
        none_text="any machine",
        label="Label of machines",
        group=WHERE,
        help="On YARN: executors run only on machines with this label, such as those with GPUs.",
    )
    master: str | None = option(
        default=None,
        none_text="this machine",
        label="Spark master",
        group=WHERE,
        help="spark://…, yarn or k8s://… for a cluster; local[2] for all in one process.",
    )
    settings: Mapping[str, Any] = option(
        default_factory=dict,
        form=False,
        help="Further Spark settings by name: texts, numbers, booleans.",
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
        """As code, without secrets."""
        return to_code(self, prefix="")

    @property
    def arguments(self) -> dict[str, Any]:
        """Those that differ from their defaults, as `start_spark` takes them."""
        return self.changed()

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of settings whose values were left out of the file that this was read from."""
        return tuple(left_out(self.settings))

    def shown(self, name: str) -> Any:
        """The value of an option; of settings, a sentence in place of each that looks secret."""
        return without_secrets(self.settings) if name == "settings" else getattr(self, name)

    def to_code(self, variable: str = "spark", *, workers: str | None = None) -> str:
        """Python that starts such a session, after `import sparkwright as sw`.

        A sentence stands in place of each value that looks secret; `start_spark` refuses it.

        Args:
            variable: what the session is called; default "spark".
            workers: Python source that stands in place of their number, such as a name; default
                None: the number itself.
        """
        given = {name: self.shown(name) for name in self.changed()}
        if workers is not None:
            given = {"workers": None} | given | {"workers": Expression(workers)}
        return call_to_code(f"{variable} = sw.start_spark", **given)

    def start(self) -> "SparkSession":
        """Start Spark so, or return the session that is already active; see `start_spark`.

        Raises:
            ConfigurationError: naming settings whose values were left out of a file, if no session
                is active.
        """
        return start_spark(**self.arguments)


def _plain(name: Any, value: Any) -> str | bool | int | float:
    """The value as files hold it."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"names of Spark settings must be texts. Received: {name!r}.")
    kinds: tuple[Any, ...] = (bool, int, str, float)
    for kind in kinds:
        if isinstance(value, kind) and (kind is not float or math.isfinite(value)):
            return kind(value)
    # Its class only: the value may be a secret.
    raise ConfigurationError(
        "values of Spark settings must be texts, booleans or finite numbers. Received: "
        f"settings[{name!r}], of class {type(value).__name__}. Write it as Spark takes it."
    )
