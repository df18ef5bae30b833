"""An experiment whose data is loaded and whose network is built."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkwright.data import DistributedDataSet, MinMaxScale, Standardize
from sparkwright.errors import ConfigurationError
from sparkwright.local import ParallelWrapper
from sparkwright.runs import TrainingRun
from sparkwright.spark import SparkNetwork
from sparkwright.spark.secrets import looks_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ._experiment import Experiment

NORMALIZERS = {"standardize": Standardize, "min_max": MinMaxScale}


@dataclass(kw_only=True, slots=True)
class PreparedExperiment:
    """What an experiment needs, made: ready to begin.

    Attributes:
        experiment: what it was made from.
        spark: the session.
        data: the parts of the split by name: "train", and "validation" and "test" as split.
        network: the network on Spark; it evaluates and saves also after a run of
            `ParallelWrapper`.
        has_older_weights: whether the network has learnt before the next run; default False: it
            was built as the experiment says. A run sets it.
    """

    experiment: "Experiment"
    spark: "SparkSession"
    data: dict[str, DistributedDataSet]
    network: SparkNetwork
    has_older_weights: bool = False

    @property
    def validation(self) -> DistributedDataSet | None:
        """What the loss is measured on after each epoch."""
        name = self.experiment.validation
        return None if name is None else self.data[name]

    def start(self, *, resume: str | None = None, display: bool | None = None) -> TrainingRun:
        """Begin to train and return at once.

        The run knows its `code`, unless it goes on with what was learnt before, which the
        experiment alone does not give, or the data's URL looks as if it held a secret: reports
        show the code.

        Args:
            resume: URL of a checkpoint to go on from; default None.
            display: show the run live; default None: in notebooks.

        Raises:
            ConfigurationError: if early stopping has nothing to judge by.
            SlotsError: if there are fewer task slots than workers.
        """
        run = self._started(resume, display)
        run.note = self.experiment.note
        if not (self.has_older_weights or looks_secret("url", self.experiment.data.url)):
            afresh = f"# The run went on from {resume!r}; this trains from the very beginning.\n"
            run.code = ("" if resume is None else afresh) + self.experiment.to_code()
        self.has_older_weights = True
        return run

    def _started(self, resume: str | None, display: bool | None) -> TrainingRun:
        experiment, validation = self.experiment, self.validation
        if experiment.early_stopping is not None and validation is None:
            raise ConfigurationError(
                "early stopping judges by validation data. Received: "
                f"validate={experiment.validate}, validate_on={experiment.validate_on!r}, parts "
                f"{sorted(self.data)}. Give the split a share for validation, and leave "
                "`validate=True`."
            )
        options: dict[str, Any] = {
            "epochs": experiment.epochs,
            "early_stopping": experiment.early_stopping,
            "resume": resume,
            "display": display,
        }
        if not experiment.parallel:
            return self.network.start(self.data["train"], validation=validation, **options)
        wrapper = ParallelWrapper(
            self.network.model, experiment.seeded_master, normalizer=self.network.normalizer
        )
        return wrapper.start(
            self.data["train"].collect(),
            validation=None if validation is None else validation.collect(),
            **options,
        )


def prepare(
    experiment: "Experiment",
    spark: "SparkSession | None",
    *,
    data: dict[str, DistributedDataSet] | None = None,
    network: SparkNetwork | None = None,
) -> PreparedExperiment:
    """Start Spark, load the data, fit the normalizer, build the network; unless they are given.

    Args:
        experiment: what to make.
        spark: a session to use; None: the experiment says how to start one.
        data: its data, loaded; default None: it is loaded now.
        network: one to go on with: its model and its normalizer; default None: built anew.

    Raises:
        ConfigurationError: if the experiment cannot be carried out.
        DataError, OSError: what is wrong with the data.
    """
    if experiment.reason is not None:
        raise ConfigurationError(experiment.reason)
    session = experiment.spark.start() if spark is None else spark
    parts = experiment.data.load_split(session) if data is None else data
    if network is None:
        model, normalizer = experiment.network.build(), _fitted(experiment, parts)
    else:
        model, normalizer = network.model, network.normalizer
    made = SparkNetwork(session, model, experiment.seeded_master, normalizer=normalizer)
    return PreparedExperiment(
        experiment=experiment,
        spark=session,
        data=parts,
        network=made,
        has_older_weights=network is not None,
    )


def _fitted(experiment: "Experiment", parts: dict[str, DistributedDataSet]) -> Any:
    if experiment.normalize is None:
        return None
    kind = NORMALIZERS[experiment.normalize]
    # Numbers to predict as well: prices of 500,000 are not learnt as they are.
    return kind.fit(parts["train"], labels=experiment.data.task == "regression")
