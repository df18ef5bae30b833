"""SparkNetwork: a Keras model with a Spark session and a training master."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from sparkwright._interrupts import interrupts_held
from sparkwright.data import (
    DataSet,
    DistributedDataSet,
    LocalData,
    Normalizer,
    TableSchema,
    TfData,
    load_normalizer,
)
from sparkwright.data.in_memory import in_memory
from sparkwright.data.loaders import Loader
from sparkwright.data.pieces import OnError
from sparkwright.errors import ConfigurationError
from sparkwright.masters import TrainingMaster
from sparkwright.networks.building import Builder, model_of
from sparkwright.networks.normalizing import NormalizerPlace, check_normalizer
from sparkwright.runs import TrainingRun
from sparkwright.runs.begin import RunBeginning, check_direct, refuse_joining
from sparkwright.runs.fit_options import (
    CheckedOptions,
    FitOptions,
    checked_options,
    takes_fit_options,
    training_and_validation,
)
from sparkwright.runs.launching import count_text
from sparkwright.runs.outcome import Engine
from sparkwright.runs.peer_engine import PeerEngine
from sparkwright.storage import load_model, model_info, save_model
from sparkwright.storage.models import read_notes
from sparkwright.workers.data_checks import check_data

from ._layout import Exports, first_layout
from ._network_evaluation import EvaluatingNetwork
from ._rounds import SparkRoundsEngine
from ._saved_networks import distributed_master, training_summary
from .launcher import SparkLauncher
from .secrets import session_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


class SparkNetwork(EvaluatingNetwork):
    """A compiled Keras model that is trained and evaluated on Spark.

    Attributes:
        spark: the session.
        model: the keras.Model; training changes it in place.
        master: the training master; None: evaluation only.
        normalizer: applied to all training, evaluation and prediction data; None: none.
        class_names: output name -> class names, from the latest training data or the saved file.
        schema: the `TableSchema` of the latest training data or the saved file. Pass it to
            `from_csv` and similar to read other files the same way. None: not from a table.

    Example:
        network = SparkNetwork(spark, model, ParameterAveragingTrainingMaster())
        network.fit(train, epochs=5)
        network.evaluate(test).accuracy
    """

    def __init__(
        self,
        spark: "SparkSession",
        model: Any,
        master: TrainingMaster | None = None,
        *,
        normalizer: Normalizer | None = None,
    ) -> None:
        """Create a network from a Keras model.

        Args:
            spark: the session.
            model: a compiled keras.Model, or a function without arguments that builds and compiles
                one, for a model without a Keras configuration. Workers also call the function.
                Spark ships it in a closure; it is never written to a file.
            master: the training master; default None: evaluation only.
            normalizer: applied on the executors to training, evaluation and scoring data, and saved
                with the model. Default None: no normalization.

        Raises:
            ConfigurationError: if `model` is not a Keras model and does not build one; if `master`
                or `normalizer` has the wrong type; or if `normalizer` is given and `model` already
                contains one, as a model that Keras loaded from a file with its normalizer does.
        """
        model = model_of(model)
        if master is not None and not isinstance(master, TrainingMaster):
            raise ConfigurationError(
                f"`master` must be a training master or None. Received: {type(master).__name__}."
            )
        check_normalizer(normalizer, model)
        super().__init__(spark, model, normalizer=normalizer)
        self.master = master
        self._exports = Exports(spark)
        self._active: TrainingRun | None = None
        self._loaded: Mapping[str, Any] | None = None  # how a saved model was trained

    def __repr__(self) -> str:
        built = self.model.built
        parameters = f"{self.model.count_params():,} parameters" if built else "not built"
        return (
            f"SparkNetwork({self.model.name!r}, {parameters}, master={type(self.master).__name__})"
        )

    # -- training ---------------------------------------------------------------------------

    @takes_fit_options
    def fit(self, data: Any, y: Any = None, **options: Unpack[FitOptions]) -> Any:
        """Train the model in place; blocks until training ends.

        Args:
            data: a DistributedDataSet, a `data.DataSource`, the URL of exported minibatches (for
                other file formats see `fit_paths`), an RDD of DataSets or (features, label) pairs,
                a Spark DataFrame (with columns `features` and `label`, or see the `label` option),
                a pandas DataFrame, a DataSet, the result of `data.read_csv` or similar, a
                `data.TfData`, or a tuple (features, labels) or (features, labels, weights) of NumPy
                arrays, pandas DataFrames or Series, or dicts of arrays by name.
            y: labels for the features in `data`: `fit(x, y)` equals `fit((x, y))`. Default None:
                `data` contains the labels.
            **options: see `sparkwright.runs.FitOptions`.

        Returns:
            Keras' `History` with `.history`, `.epoch`, `.params` and `.model`, as `model.fit`
            returns it; see `TrainingRun.epoch_history`.

        Raises:
            RunInterrupted: on an interrupt; the last average is kept, see `TrainingRun.wait`.
            SlotsError: if there are fewer task slots than workers.
            DataError, WorkerError, NetworkError, RunTimeoutError: if training fails.
        """
        with interrupts_held():
            run = self.start(data, y, **options)
            run.wait()
        return run.epoch_history

    @takes_fit_options
    def start(self, data: Any, y: Any = None, **options: Unpack[FitOptions]) -> TrainingRun:
        """Start training and return the run without waiting; see `fit` for the arguments.

        Raises:
            ConfigurationError: if there is no master, another run trains this model, or an option
                is invalid.
            SlotsError: if there are fewer task slots than workers.
        """
        if self.master is None:
            raise ConfigurationError(
                "training needs a training master. Received: master=None. Pass one: "
                "`SparkNetwork(spark, model, ParameterAveragingTrainingMaster())`."
            )
        given = checked_options(options)
        data = data if y is None else (data, y)
        beginning = RunBeginning(
            f"run-{next(_numbers)}",
            model=self.model,
            master=self.master,
            layout=lambda: self._layout_of(data, given),
            options=given,
            previous=self._loaded if self._active is None else self._active.adapted,
        )
        master = beginning.master
        in_rounds = getattr(master, "communication", "ring") == "spark"
        train, validation = self._parts(data, given, seed=master.seed or 0)
        if isinstance(train, TfData):
            check_direct(master, "a `TfData` has no partitions")
            refuse_joining(master)
        else:
            self.class_names = dict(train.class_names) or self.class_names
            self.schema = train.schema or self.schema
        launcher = SparkLauncher(
            self.spark,
            run=beginning.id,
            data=self._normalized(train),
            validation=None if validation is None else self._normalized(validation),
            master=master,
            export=partial(
                self._exports.write,
                directory=master.export_directory,
                batch_size=master.batch_size_per_worker,
            )
            if master.training_approach != "direct"
            else None,
        )
        engine: Engine = (
            SparkRoundsEngine(self.spark, launcher, beginning)
            if in_rounds
            else PeerEngine(beginning, launcher)
        )
        return beginning.run(
            engine,
            title=f"{self.model.name} on {count_text(launcher, 'worker', 'workers')}",
            workers=launcher.workers,
            configuration=session_facts(self.spark),
            display=given["display"],
            when_begun=lambda run: setattr(self, "_active", run),
            claim=launcher.claim,
        )

    @takes_fit_options
    def fit_paths(
        self,
        where: Any,
        *,
        loader: Loader | None = None,
        on_error: OnError = "raise",
        **options: Unpack[FitOptions],
    ) -> Any:
        """Train from files of minibatches: `fit(data.from_minibatches(spark, where, …))`.

        The files' minibatch sizes may differ from `batch_size_per_worker`; examples are rebatched.

        Args:
            where: as for `sparkwright.data.from_minibatches`, which also takes `loader` and
                `on_error`: an export, a folder, a pattern, a list or RDD of URLs, a text file.
            loader: function from a file to a DataSet; default None: files written by `export`.
            on_error: "raise" (default) or "skip" invalid files.
            **options: as for `fit`; `validation` as `where`, with the same loader, or a
                DistributedDataSet or DataSet.

        Raises:
            Exception: as for `from_minibatches` and `fit`.
        """
        validation = options.get("validation")
        if not (validation is None or isinstance(validation, (DistributedDataSet, DataSet))):
            options["validation"] = self._minibatches(validation, loader, on_error)
        return self.fit(self._minibatches(where, loader, on_error), **options)

    @property
    def history(self) -> Any:
        """The Keras `History` of the last run (`TrainingRun.epoch_history`); None before a run."""
        return None if self._active is None else self._active.epoch_history

    def summary(self, **options: Any) -> None:
        """Print the layers, as Keras' `model.summary` with its `options` does."""
        self.model.summary(**options)

    def delete_temp_files(self) -> bool:
        """Delete the minibatches exported by runs of this network; return whether all are gone."""
        return self._exports.delete()

    # -- storage ----------------------------------------------------------------------------

    def save(
        self,
        url: str,
        *,
        save_updater: bool = True,
        metrics: Any | None = None,
        title: str | None = None,
        comment: str | None = None,
        saved_by: str | None = "auto",
        normalizer: NormalizerPlace = "inside",
    ) -> None:
        """Write the model to `url`, atomically; see `save_model`.

        The file also contains the normalizer, the class names, the table schema with its text
        categories, and a summary of the training. Keras can still load the file. `load` restores
        the network with its normalizer.

        Args:
            url: destination.
            save_updater: include the optimizer state (default True), so that training can continue.
            metrics: JSON-serializable results by name, shown by `model_info`; default none.
            title: a short title, shown by `model_info`.
            comment: a longer comment, shown by `model_info`.
            saved_by: author; default "auto": user and host name. None: not saved.
            normalizer: "inside" (default): also save it as Keras layers around the model, so that
                `keras.saving.load_model` returns a model that takes raw features and predicts in
                the units of the labels. "beside": Keras loads the model without the normalizer.

        Raises:
            Exception: as for `save_model`.
        """
        notes: dict[str, Any] = {}
        if self.class_names:
            notes["class_names"] = {n: list(names) for n, names in self.class_names.items()}
        if self.schema is not None:
            notes["schema"] = self.schema.to_dict()
        save_model(
            self.model,
            url,
            save_updater=save_updater,
            notes=notes,
            metadata={
                "title": title,
                "comment": comment,
                "metrics": {} if metrics is None else metrics,
                "saved_by": saved_by,
                "training": training_summary(self.master, self._active),
            },
            normalizer=self.normalizer,
            normalizer_place=normalizer,
        )

    @classmethod
    def load(
        cls,
        spark: "SparkSession",
        url: str,
        master: TrainingMaster | None = None,
        *,
        custom_objects: dict[str, Any] | None = None,
        safe_mode: bool = True,
        build_model: Builder | None = None,
    ) -> "SparkNetwork":
        """Load a network with everything that `save` wrote to `url`; see `load_model`.

        Without a `master`, the `distributed_config` of a Keras HDF5 file provides one, if present;
        see `load_distributed_model`. With `safe_mode=False`, code in the file is EXECUTED.
        """
        if master is None:
            master = distributed_master(url)
        model = load_model(
            url, custom_objects=custom_objects, safe_mode=safe_mode, build_model=build_model
        )
        network = cls(spark, model, master, normalizer=load_normalizer(url))
        notes = read_notes(url)
        class_names = notes.get("class_names", {})
        network.class_names = {name: tuple(names) for name, names in class_names.items()}
        network._loaded = model_info(url).training
        if notes.get("schema") is not None:
            network.schema = TableSchema.from_dict(notes["schema"])
        return network

    # -- private ----------------------------------------------------------------------------

    def _parts(
        self, data: Any, options: CheckedOptions, *, seed: int, checked: bool = True
    ) -> tuple[DistributedDataSet | TfData, DistributedDataSet | None]:
        """Return weighted training and validation data, `checked` against the network."""

        def take(data: Any, option: str, **known: Any) -> Any:
            found = in_memory(data, option=option, **known)
            return self._distributed(data, option, **known) if found is None else found

        taken, train, validation = training_and_validation(
            self.model, data, options, take, seed=seed
        )
        if isinstance(taken, LocalData):
            train = replace(taken, data=train)
        if checked:
            check_data(self.model, train, validation)
        if validation is not None:
            validation = self._distributed(validation, "validation")
        if isinstance(train, LocalData):
            train = self._distributed(train, "data")
        return train, validation

    def _layout_of(self, data: Any, options: CheckedOptions) -> Mapping[str, tuple[Any, Any]]:
        """Return names, dtypes and shapes of the training data, to build an unbuilt model."""
        options = {**options, "class_weight": None}
        train, _ = self._parts(data, options, seed=0, checked=False)
        found = self._normalized(train)
        return found.layout if isinstance(found, TfData) else first_layout(found)
