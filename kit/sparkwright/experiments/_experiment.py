"""An experiment that one YAML file reproduces; preparation of its data, session and network."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.data import DataSource
from sparkwright.data.wording import clipped
from sparkwright.errors import ConfigurationError
from sparkwright.masters import Histograms, ParameterAveragingTrainingMaster
from sparkwright.masters.reading import MASTERS
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.networks import PRESETS, NetworkSpec
from sparkwright.options import MAX_SEED
from sparkwright.spark.spark_settings import SparkSettings
from sparkwright.storage.files import read_bytes, write_bytes

from ._code import notebook, script
from ._prepared import PreparedExperiment, prepare
from .stopping import EarlyStoppingOptions, MonitoredScore, ReduceLROnPlateauOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NormalizeKind = Literal["standardize", "min_max"]
ValidationPart = Literal["validation", "test"]
TEST_VALIDATES = "Validation: the test set; its scores are not independent."


@configuration
class Experiment(Configuration):
    """A complete, reproducible description of a training; serializable as YAML.

    Example:
        >>> experiment = Experiment(epochs=3)
        >>> Experiment.from_yaml(experiment.to_yaml()) == experiment
        True
        >>> experiment
        <Experiment 'experiment': data digits, network 'lenet' of 8 layers,
        ParameterAveragingTrainingMaster, 3 epochs>
    """

    _tagged: ClassVar[bool] = True

    title: str = option(default="experiment", help="Title for headings.")
    data: DataSource = option(
        default_factory=DataSource,
        help="The source of the examples, and how to split them.",
    )
    normalize: NormalizeKind | None = option(
        default=None,
        none_text="as they are",
        label="Scale features",
        help='"standardize" or "min_max": scale features, and regression labels, with the '
        "statistics of the training data. The scaling is saved with the model, which predicts in "
        "the labels' original units.",
    )
    network: NetworkSpec = option(
        default_factory=lambda: PRESETS["lenet"].make(),
        help="The layers, loss and optimizer. Default: LeNet for 28 x 28 digits.",
    )
    master: TrainingMaster = option(
        default_factory=lambda: ParameterAveragingTrainingMaster(batch_size_per_worker=32),
        kinds=MASTERS,
        help="The training master. Default: parameter averaging with 32 examples a minibatch.",
    )
    parallel: bool = option(
        default=False,
        help="Train with processes on this machine (`ParallelWrapper`) instead of Spark executors.",
    )
    spark: SparkSettings = option(default_factory=SparkSettings, help="How to start Spark.")
    epochs: int = option(default=5, minimum=1, help="Passes over the data.")
    validate: bool = option(
        default=True,
        label="Validate after each epoch",
        help="Measure the loss on validation data after each epoch, to see overfitting.",
    )
    validate_on: ValidationPart = option(
        default="validation",
        help='The part of the data to validate on. With "test", test scores are not independent, '
        "because the test set decides when training ends, or which network is kept. Run, report "
        "and code contain a note.",
    )
    early_stopping: EarlyStoppingOptions | None = option(
        default=None,
        label="Stop early",
        group="Early stopping",
        help="End the run if a score no longer improves, with Keras' `EarlyStopping`.",
    )
    reduce_lr_on_plateau: ReduceLROnPlateauOptions | None = option(
        default=None,
        label="Lower the learning rate on a plateau",
        group="Learning rate",
        help="Lower the learning rate if a score no longer improves, with Keras' "
        "`ReduceLROnPlateau`.",
    )
    histograms: Histograms | None = option(
        default=None,
        none_text="only on request",
        group="Histograms",
        help="Histograms of weights, updates and activations that a worker takes during training.",
    )
    seed: int = option(
        default=1,
        minimum=0,
        maximum=MAX_SEED,
        help="Seed of shuffles and repartitioning if `master` has none. The network and the split "
        "of the data have their own seeds.",
    )

    def __repr__(self) -> str:
        """Summarize the experiment in two lines; see `to_yaml` for all options."""
        url = f" {clipped(self.data.url)!r}" if self.data.url else ""
        layers = len(self.network.layers)
        return (
            f"<Experiment {clipped(self.title)!r}: data {self.data.format}{url}, network "
            f"{clipped(self.network.name)!r} of {layers} layer{'s' if layers != 1 else ''},\n"
            f"{type(self.master).__name__}, {self.epochs} epoch{'s' if self.epochs != 1 else ''}>"
        )

    @property
    def seeded_master(self) -> TrainingMaster:
        """The master, with the experiment's seed if it has none."""
        return self.master if self.master.seed is not None else replace(self.master, seed=self.seed)

    @property
    def callbacks(self) -> list[MonitoredScore]:
        """The options of the Keras callbacks."""
        given = self.early_stopping, self.reduce_lr_on_plateau
        return [each for each in given if each is not None]

    @property
    def validation(self) -> str | None:
        """The name of the part of the data used for validation; None without validation."""
        parts = self.data.split.shares if self.validate else ()
        return self.validate_on if self.validate_on in parts else None

    @property
    def note(self) -> str:
        """A caveat on the scores of a run; empty: none."""
        return TEST_VALIDATES if self.validation == "test" else ""

    @property
    def reason(self) -> str | None:
        """Why training cannot start, in one sentence; None: it can.

        Does not check the data files, which are read on load.
        """
        if self.data.problem is not None:
            return f"The data cannot be loaded. {self.data.problem}"
        if (misfit := _task_misfit(self.data.task, self.network.task)) is not None:
            return misfit
        if self.reduce_lr_on_plateau is not None and self.network.optimizer.schedule is not None:
            return (
                "`reduce_lr_on_plateau` cannot change the learning rate, because the optimizer "
                "uses a schedule. Leave out one of the two."
            )
        reason = self.network.analysis.reason
        return None if reason is None else f"The network cannot be built. {reason}"

    def prepare(self, spark: "SparkSession | None" = None) -> "PreparedExperiment":
        """Start Spark, load the data, build the network.

        Args:
            spark: a session to use; default None: start one with `self.spark`.

        Raises:
            ConfigurationError: if the network cannot be built, or the data is not specified.
            DataError, OSError: if the data is invalid or cannot be read.
        """
        return prepare(self, spark)

    def start(self, spark: "SparkSession | None" = None, *, display: bool | None = None) -> Any:
        """Prepare and start training; return the TrainingRun immediately.

        Raises:
            Exception: see `prepare` and `SparkNetwork.start`.
        """
        return self.prepare(spark).start(display=display)

    def to_code(self) -> str:
        """Return an equivalent Python script."""
        return script(self)

    def to_notebook(self) -> dict[str, Any]:
        """Return an equivalent notebook of code cells, as the JSON of an `.ipynb` file."""
        return notebook(self)

    def save(self, url: str) -> None:
        """Write the experiment to a URL: as a notebook if it ends in `.ipynb`, else as YAML.

        Raises:
            ConfigurationError: if the name has another extension.
            OSError: if it cannot be written.
        """
        import json

        if not url.endswith((".ipynb", ".yaml", ".yml")):
            raise ConfigurationError(
                "an experiment is written to a name that ends in .yaml, .yml or .ipynb. "
                f"Received: url={url!r}."
            )
        text = (
            json.dumps(self.to_notebook(), indent=1, ensure_ascii=False) + "\n"
            if url.endswith(".ipynb")
            else self.to_yaml()
        )
        write_bytes(url, text.encode())

    @classmethod
    def load(cls, url: str) -> "Experiment":
        """Read an experiment from a YAML file.

        Raises:
            OSError: if it cannot be read.
            ConfigurationError: if it is not an experiment.
        """
        try:
            return cls.from_yaml(read_bytes(url).decode())
        except (UnicodeDecodeError, ConfigurationError) as error:
            raise ConfigurationError(f"{url} is not an experiment: {error}") from None


def _task_misfit(data: str, network: str) -> str | None:
    """Error message if the network's task does not match the data's labels; None if it does."""
    if data == "regression" and network in ("classification", "binary"):
        return (
            "The data's labels are numbers, but the network predicts classes. Choose a network for "
            "regression, or the data's task classification."
        )
    if data == "classification" and network == "regression":
        return (
            "The data's labels are classes, but the network predicts a number. Choose a network "
            "for classification, or the data's task regression."
        )
    return None
