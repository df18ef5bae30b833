"""What one would vary of an experiment, by the names that its notebook gives to it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkwright.data._sources._source_call import literal

if TYPE_CHECKING:
    from ._experiment import Experiment

# Notebooks' tools look for the cell with this tag.
TAG = "parameters"
NAMES = (
    *("data_url", "split_seed", "executors", "workers", "network_seed"),
    *("batch_size", "training_seed", "epochs"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """Names in place of values, in the code of an experiment.

    Attributes:
        values: name -> the experiment's value, in the order of their use; empty: the code has the
            values themselves.
        executors: the name of Spark's workers; None: it has none.
    """

    values: Mapping[str, str | int]
    executors: str | None = None

    def named(self, name: str) -> str | None:
        """The name if it is one of them, else None."""
        return name if name in self.values else None

    def to_code(self) -> str:
        """A line for each: a name set to its value."""
        return "\n".join(f"{name} = {literal(value)}" for name, value in self.values.items())


WITHOUT = Parameters(values={})


def parameters_of(experiment: "Experiment") -> Parameters:
    """What can be varied of an experiment, with its values.

    Spark has as many executors as there are workers, and both one name, unless their numbers
    differ. A cluster has executors of its own accord.
    """
    source, spark = experiment.data, experiment.spark
    master = experiment.seeded_master
    executors = None
    values: dict[str, str | int | None] = {}
    if source.info.needs_url:
        values["data_url"] = source.url
    if len(source.split.shares) > 1:
        values["split_seed"] = source.split.seed
    if spark.master in (None, "local-cluster"):
        executors = "workers" if master.workers in (None, spark.workers) else "executors"
        values[executors] = spark.workers
    if master.workers is not None:
        values["workers"] = master.workers
    values["network_seed"] = experiment.network.seed
    values["batch_size"] = master.batch_size_per_worker
    values["training_seed"] = master.seed
    values["epochs"] = experiment.epochs
    return Parameters(
        values={name: value for name, value in values.items() if value is not None},
        executors=executors,
    )
