"""SparkNetwork: a Keras model together with a Spark cluster and a way to train on it."""

import copy
import itertools
import platform
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from sparkwright._interrupts import interrupts_held
from sparkwright._version import __version__
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
from sparkwright.networks.normalizing import (
    NormalizerPlace,
    place_for,
    refuse_second_normalizer,
)
from sparkwright.runs import TrainingRun
from sparkwright.runs.begin import RunBeginning, check_direct, count_text, refuse_joining
from sparkwright.runs.engine import Engine
from sparkwright.runs.fit_options import (
    CheckedOptions,
    FitOptions,
    checked_options,
    parts,
    takes_fit_options,
)
from sparkwright.runs.peer_engine import saves_updater
from sparkwright.storage import load_model, save_model
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
        master: how to train; None: evaluation only.
        normalizer: applied to all data that goes through the network; None: none.
        class_names: output name -> names of its classes, of the data last trained on, or as saved.
        schema: how a table became the data last trained on, or as saved: `from_csv` and the like
            read other files the same way with it. None: it came from no table.

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
        """Take a keras.Model.

        Args:
            spark: the session.
            model: the model; or a function without arguments that builds and compiles it, for a
                model that Keras cannot describe by a configuration. Workers call the function, too:
                it travels in Spark's closure, and is never written to a file.
            master: how to train; default None: evaluation only.
            normalizer: applied on the executors to everything that is trained on, evaluated or
                scored, and saved with the model. Default None: data is taken as it is.

        Raises:
            ConfigurationError: if `model` is no Keras model and builds none, `master` no training
                master or `normalizer` no normalizer; or if `model` holds one already, as Keras
                alone reads it from a file that has it inside.
        """
        model = model_of(model)
        if master is not None and not isinstance(master, TrainingMaster):
            raise ConfigurationError(
                f"`master` must be a training master or None. Received: {type(master).__name__}."
            )
        if normalizer is not None and not isinstance(normalizer, Normalizer):
            raise ConfigurationError(
                "`normalizer` must be a normalizer or None. Received: "
                f"{type(normalizer).__name__}. See `sparkwright.data.Standardize.fit`."
            )
        if normalizer is not None:
            refuse_second_normalizer(model)
        super().__init__(spark, model, normalizer=normalizer)
        self.master = master
        self._exports = Exports(spark)
        self._active: TrainingRun | None = None

    def __repr__(self) -> str:
        built = self.model.built
        parameters = f"{self.model.count_params():,} parameters" if built else "not built"
        return (
            f"SparkNetwork({self.model.name!r}, {parameters}, master={type(self.master).__name__})"
        )

    # -- training ---------------------------------------------------------------------------

    @takes_fit_options
    def fit(self, data: Any, y: Any = None, **options: Unpack[FitOptions]) -> Any:
        """Train and return the model, which is changed in place; blocks.

        Args:
            data: a DistributedDataSet, a `data.DataSource`, the URL of exported minibatches (files
                of another format: `fit_paths`), an RDD of DataSets or (features, label) pairs, a
                Spark DataFrame (with columns `features` and `label`, or see `label` below), a
                pandas DataFrame, a DataSet, what `data.read_csv` and the like return, a
                `data.TfData`, or a tuple (features, labels) or (features, labels, weights) of NumPy
                arrays, pandas' DataFrames and Series, or dicts of arrays by name.
            y: labels of features that are given as `data`: `fit(x, y)` is `fit((x, y))`. Default
                None: `data` has them.
            **options: see `sparkwright.runs.FitOptions`.

        Raises:
            RunInterrupted: on an interrupt; the last average is kept, see `TrainingRun.wait`.
            SlotsError, DataError, WorkerError, NetworkError, RunTimeoutError: what went wrong.
        """
        with interrupts_held():
            return self.start(data, y, **options).wait()

    @takes_fit_options
    def start(self, data: Any, y: Any = None, **options: Unpack[FitOptions]) -> TrainingRun:
        """Begin to train and return at once; see `fit` for the arguments.

        Raises:
            ConfigurationError: without a master, while another run of this network goes on, or if
                an option cannot be meant.
            SlotsError: if there are fewer task slots than workers.
        """

        def save(model: Any, url: str) -> None:
            network = copy.copy(self)
            network.model = model
            network.save(url, save_updater=saves_updater(master), normalizer=place)

        given = checked_options(options)
        data = data if y is None else (data, y)
        beginning = RunBeginning(
            f"run-{next(_numbers)}",
            model=self.model,
            master=self._require_master(),
            layout=lambda: self._layout_of(data, given),
            options=given,
            save=save,
            previous=self._active,
        )
        rules = given["early_stopping"]
        saves_files = rules is not None and rules.saves_files
        place: NormalizerPlace = "inside"
        if saves_files:
            place = place_for(self.model, self.normalizer)
        master = beginning.master
        in_rounds = getattr(master, "communication", "ring") == "spark"
        validates = given["validation"] is not None or given["validation_split"] > 0
        if in_rounds and (validates or given["resume"] is not None or master.checkpoint):
            raise ConfigurationError(
                '`validation`, `resume` and `checkpoint` need `communication="ring"` or "driver". '
                'Received: communication="spark". Evaluate after training with `network.evaluate`.'
            )
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
            export=self._exporter(master),
        )
        engine: Engine = (
            SparkRoundsEngine(self.spark, launcher, beginning)
            if in_rounds
            else beginning.peer_engine(launcher)
        )
        return beginning.run(
            engine,
            title=f"{self.model.name} on {count_text(launcher, 'worker', 'workers')}",
            workers=launcher.workers,
            configuration=self._configuration(),
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
        """`fit(data.from_minibatches(spark, where, …))`: train from files of minibatches.

        The files' sizes need not be those of the training: minibatches of
        `batch_size_per_worker` examples are made anew.

        Args:
            where: as for `sparkwright.data.from_minibatches`, which also takes `loader` and
                `on_error`: an export, a folder, a pattern, a list or RDD of URLs, a text file.
            loader: file -> DataSet; default None: files that `export` wrote.
            on_error: "raise" (default) or "skip" files that cannot be used.
            **options: as for `fit`; `validation` as `where`, with the same loader, or a
                DistributedDataSet or DataSet.

        Raises:
            Exception: as `from_minibatches` and `fit`.
        """
        validation = options.get("validation")
        if not (validation is None or isinstance(validation, (DistributedDataSet, DataSet))):
            options["validation"] = self._minibatches(validation, loader, on_error)
        return self.fit(self._minibatches(where, loader, on_error), **options)

    @property
    def history(self) -> Any:
        """Keras' `History` of the last run, see `TrainingRun.epoch_history`; None before one."""
        return None if self._active is None else self._active.epoch_history

    def delete_temp_files(self) -> bool:
        """Remove the minibatches that runs of this network exported; True when nothing is left."""
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

        The normalizer, the names of classes and the schema of the table, with the categories of
        text, go into the same file, which Keras reads as ever; so does how the model was trained.
        `load` returns the network as it is now, with the normalizer.

        Args:
            url: where to.
            save_updater: with the optimizer's state (default True), so that training can go on.
            metrics: JSON-able results by name, for `model_info`; default none.
            title: a few words, likewise.
            comment: more of them.
            saved_by: who; default "auto": user and machine. None: not kept.
            normalizer: "inside" (default): also as Keras' own layers around the model, so that
                `keras.saving.load_model` gives a model of raw features, and of outputs in the units
                of the labels. "beside": Keras alone gets the model without it.

        Raises:
            Exception: as `save_model`.
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
        """A network with all that `save` kept at `url`; see `load_model`.

        Without a `master`, that of a Keras HDF5 file with `distributed_config` is taken, if it is
        one; see `load_distributed_model`. With `safe_mode=False`, code in the file is EXECUTED.
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

        taken, train, validation = parts(self.model, data, options, take, seed=seed)
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
        """Names, dtypes and shapes of the data that is trained, for a model that is not built."""
        options = {**options, "class_weight": None}
        train, _ = self._parts(data, options, seed=0, checked=False)
        found = self._normalized(train)
        return found.layout if isinstance(found, TfData) else first_layout(found)

    def _require_master(self) -> TrainingMaster:
        if self.master is None:
            raise ConfigurationError(
                "training needs a training master. Received: master=None. Give one: "
                "`SparkNetwork(spark, model, ParameterAveragingTrainingMaster())`."
            )
        if self._active is not None and not self._active.finished:
            raise ConfigurationError(
                f"this network is being trained by run {self._active.name}: two runs would "
                "overwrite each other's result. Wait for it, stop it, or train a clone in another "
                "network."
            )
        return self.master

    def _exporter(self, master: TrainingMaster) -> Any:
        if master.training_approach == "direct":
            return None
        return lambda rdd: self._exports.write(
            rdd,
            directory=master.export_directory,
            batch_size=master.batch_size_per_worker,
        )

    def _configuration(self) -> dict[str, Any]:
        import keras
        import pyspark

        return {
            **session_facts(self.spark),
            "environment": {
                "sparkwright": __version__,
                "python": platform.python_version(),
                "keras": keras.__version__,
                "pyspark": pyspark.__version__,
                "platform": platform.platform(),
            },
        }
