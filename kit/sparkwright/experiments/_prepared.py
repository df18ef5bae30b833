"""An experiment with its session, data and network, ready to train."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkwright.data import DistributedDataSet
from sparkwright.errors import ConfigurationError
from sparkwright.local import ParallelWrapper
from sparkwright.runs import TrainingRun
from sparkwright.spark import SparkNetwork
from sparkwright.spark.secrets import looks_secret

from ._code import NORMALIZERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ._experiment import Experiment


@dataclass(kw_only=True, slots=True)
class PreparedExperiment:
    """An experiment with its session, data and network, ready to train.

    Attributes:
        experiment: the experiment.
        spark: the session.
        data: the parts of the split by name: "train", and "validation" and "test" as split.
        network: the network on Spark, also used to evaluate and save after a `ParallelWrapper` run.
        has_older_weights: whether the network has been trained before the next run; default False:
            it is newly built. Each run sets it.
    """

    experiment: "Experiment"
    spark: "SparkSession"
    data: dict[str, DistributedDataSet]
    network: SparkNetwork
    has_older_weights: bool = False

    @property
    def validation(self) -> DistributedDataSet | None:
        """The validation data; None without validation."""
        name = self.experiment.validation
        return None if name is None else self.data[name]

    def start(
        self, *, resume: str | None = None, display: bool | None = None, log_to: Any = None
    ) -> TrainingRun:
        """Start training and return immediately.

        Sets the run's `code`, which reports show. There is no code if the network was trained
        before, which the code could not reproduce, or if the data's URL may contain a secret.

        Args:
            resume: URL of a checkpoint to resume from; default None.
            display: show progress, see `FitOptions`. Default None: show it.
            log_to: trackers, see `FitOptions`; default None: none.

        Raises:
            ConfigurationError: if a callback lacks validation data.
            SlotsError: if there are fewer task slots than workers.
        """
        experiment, validation = self.experiment, self.validation
        scored = next((each for each in experiment.callbacks if each.needs_validation), None)
        if scored is not None and validation is None:
            raise ConfigurationError(
                f"`{scored.monitor}` is a score of validation data. Received: "
                f"validate={experiment.validate}, validate_on={experiment.validate_on!r}, parts "
                f"{sorted(self.data)}. Give the split a share for validation, and leave "
                "`validate=True`, or monitor a score of training."
            )
        options: dict[str, Any] = {
            "epochs": experiment.epochs,
            "callbacks": [each.to_keras() for each in experiment.callbacks],
            "histograms": experiment.histograms,
            "resume": resume,
            "display": display,
            "log_to": log_to,
        }
        train, network = self.data["train"], self.network
        if experiment.parallel:
            wrapper = ParallelWrapper(
                network.model, experiment.seeded_master, normalizer=network.normalizer
            )
            seen = None if validation is None else validation.collect()
            run = wrapper.start(train.collect(), validation=seen, **options)
        else:
            run = network.start(train, validation=validation, **options)
        run.note = experiment.note
        if not (self.has_older_weights or looks_secret("url", experiment.data.url)):
            afresh = f"# The run went on from {resume!r}; this trains from the very beginning.\n"
            run.code = ("" if resume is None else afresh) + experiment.to_code()
        self.has_older_weights = True
        return run


def prepare(
    experiment: "Experiment",
    spark: "SparkSession | None",
    *,
    data: dict[str, DistributedDataSet] | None = None,
    network: SparkNetwork | None = None,
) -> PreparedExperiment:
    """Start Spark, load the data, fit the normalizer and build the network, unless given.

    Args:
        experiment: the experiment to prepare.
        spark: a session to use; None: start one with the experiment's settings.
        data: the loaded data; default None: load it.
        network: a network whose model and normalizer to keep; default None: build one.

    Raises:
        ConfigurationError: if the experiment is invalid.
        DataError, OSError: if the data is invalid or cannot be read.
    """
    if experiment.reason is not None:
        raise ConfigurationError(experiment.reason)
    session = experiment.spark.start() if spark is None else spark
    parts = experiment.data.load_split(session) if data is None else data
    if network is not None:
        model, normalizer = network.model, network.normalizer
    else:
        model, normalizer = experiment.network.build(), None
        if experiment.normalize is not None:
            kind = NORMALIZERS[experiment.normalize]
            # Scale regression labels too: values such as prices of 500,000 train badly.
            normalizer = kind.fit(parts["train"], labels=experiment.data.task == "regression")
    made = SparkNetwork(session, model, experiment.seeded_master, normalizer=normalizer)
    return PreparedExperiment(
        experiment=experiment,
        spark=session,
        data=parts,
        network=made,
        has_older_weights=network is not None,
    )
