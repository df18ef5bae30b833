"""SparkNetwork: a Keras model together with a Spark cluster and a way to train on it."""

import contextlib
import copy
import itertools
import platform
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright._version import __version__
from sparkwright.data import (
    DataSet,
    DistributedDataSet,
    Normalizer,
    TableSchema,
    from_arrays,
    from_minibatches,
    from_rdd,
    load_normalizer,
)
from sparkwright.data._from_spark import from_features_and_label
from sparkwright.data._minibatches._loaders import Loader
from sparkwright.data._pieces import OnError
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import (
    ROC,
    Evaluation,
    RegressionEvaluation,
    ROCDigest,
    ROCMultiClass,
)
from sparkwright.masters import EarlyStopping, TrainingMaster
from sparkwright.runs import TrainingRun
from sparkwright.runs._begin import RunBeginning
from sparkwright.runs._engine import Engine
from sparkwright.runs._peer_engine import saves_updater
from sparkwright.storage import load_model, save_model
from sparkwright.storage._models import read_notes
from sparkwright.workers._batch_layout import input_shapes, output_names, output_types
from sparkwright.workers._requests import Predicting

from ._distributed_model import distributed_master
from ._evaluating import Evaluations, by_output, evaluate, in_given_form, score
from ._export import Exports
from ._inference import Inference
from ._jobs import run_job
from ._launcher import SparkLauncher
from ._predicting import predict_dataset, predict_keyed, score_examples, score_keyed
from ._rounds import SparkRoundsEngine
from ._sql import ColumnReader, columns_of, schema_columns, sql_function
from ._training_summary import training_summary

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

_numbers = itertools.count(1)


class SparkNetwork:
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
        """Take a built keras.Model, Sequential or functional.

        Args:
            spark: the session.
            model: the model.
            master: how to train; default None: evaluation only.
            normalizer: applied on the executors to everything that is trained on, evaluated or
                scored, and saved with the model. Default None: data is taken as it is.

        Raises:
            ConfigurationError: if `model` is no Keras model, `master` no training master or
                `normalizer` no normalizer.
        """
        import keras

        if not isinstance(model, keras.Model):
            raise ConfigurationError(
                f"`model` must be a keras.Model. Received: {type(model).__name__}."
            )
        if master is not None and not isinstance(master, TrainingMaster):
            raise ConfigurationError(
                f"`master` must be a training master or None. Received: {type(master).__name__}."
            )
        if normalizer is not None and not isinstance(normalizer, Normalizer):
            raise ConfigurationError(
                "`normalizer` must be a normalizer or None. Received: "
                f"{type(normalizer).__name__}. See `sparkwright.data.Standardize.fit`."
            )
        self.spark, self.model, self.master = spark, model, master
        self.normalizer = normalizer
        self.class_names: dict[str, tuple[str, ...]] = {}
        self.schema: TableSchema | None = None
        self._exports = Exports(spark)
        self._active: TrainingRun | None = None

    def __repr__(self) -> str:
        return (
            f"SparkNetwork({self.model.name!r}, {self.model.count_params():,} parameters, "
            f"master={type(self.master).__name__})"
        )

    # -- training ---------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *,
        epochs: int | None = None,
        validation: Any | None = None,
        early_stopping: EarlyStopping | None = None,
        resume: str | None = None,
        display: bool | None = None,
    ) -> Any:
        """Train and return the model, which is changed in place; blocks.

        Args:
            data: a DistributedDataSet, an RDD of DataSets or (features, label) pairs, a DataFrame
                with columns `features` and `label`, a DataSet.
            epochs: passes over the data; default None: 1, or those of `early_stopping`.
            validation: data for the loss after each epoch; default None.
            early_stopping: when to end earlier, and which state to keep; default None. See
                `EarlyStopping`; `run.early_stopping` says what it found.
            resume: URL of a checkpoint, or of a folder of them (then the newest counts), to go on
                from: with the same network, data and workers. `epochs` counts from the very
                beginning. Default None: begin with the model as it is.
            display: show the run live; default None: in notebooks.

        Raises:
            RunInterrupted: on an interrupt; the last average is kept.
            SlotsError, DataError, WorkerError, NetworkError, RunTimeoutError: what went wrong.
        """
        return self.start(
            data,
            epochs=epochs,
            validation=validation,
            early_stopping=early_stopping,
            resume=resume,
            display=display,
        ).wait()

    def start(
        self,
        data: Any,
        *,
        epochs: int | None = None,
        validation: Any | None = None,
        early_stopping: EarlyStopping | None = None,
        resume: str | None = None,
        display: bool | None = None,
    ) -> TrainingRun:
        """Begin to train and return at once; see `fit` for the arguments.

        Raises:
            ConfigurationError: without a master, while another run of this network goes on, or if
                an option cannot be meant.
            SlotsError: if there are fewer task slots than workers.
        """

        def save(model: Any, url: str) -> None:
            network = copy.copy(self)
            network.model = model
            network.save(url, save_updater=saves_updater(master))

        beginning = RunBeginning(
            f"run-{next(_numbers)}",
            model=self.model,
            master=self._require_master(),
            epochs=epochs,
            resume=resume,
            early_stopping=early_stopping,
            validates=validation is not None,
            save=save,
        )
        master = beginning.master
        in_rounds = getattr(master, "communication", "ring") == "spark"
        if in_rounds and (validation is not None or resume is not None or master.checkpoint):
            raise ConfigurationError(
                '`validation`, `resume` and `checkpoint` need `communication="ring"`. Received: '
                'communication="spark". Evaluate after training with `network.evaluate`.'
            )
        train = self._distributed(data, "data")
        self.class_names = dict(train.class_names) or self.class_names
        self.schema = train.schema or self.schema
        launcher = SparkLauncher(
            self.spark,
            run=beginning.id,
            data=self._normalized(train),
            validation=None
            if validation is None
            else self._normalized(self._distributed(validation, "validation")),
            master=master,
            export=self._exporter(master),
        )
        engine: Engine = (
            SparkRoundsEngine(
                spark=self.spark,
                run=beginning.id,
                launcher=launcher,
                master=master,
                definition=beginning.definition,
                start=beginning.start,
                epochs=beginning.epochs,
                judged=beginning.judged,
            )
            if in_rounds
            else beginning.peer_engine(launcher)
        )
        return beginning.run(
            engine,
            title=f"{self.model.name} on {launcher.workers} workers",
            workers=launcher.workers,
            configuration=self._configuration(),
            display=display,
            when_begun=lambda run: setattr(self, "_active", run),
        )

    def fit_paths(
        self,
        where: Any,
        *,
        loader: Loader | None = None,
        on_error: OnError = "raise",
        epochs: int | None = None,
        validation: Any | None = None,
        early_stopping: EarlyStopping | None = None,
        resume: str | None = None,
        display: bool | None = None,
    ) -> Any:
        """Train from files that hold minibatches; blocks and returns the model, as `fit` does.

        The files' sizes need not be those of the training: minibatches of
        `batch_size_per_worker` examples are made anew.

        Args:
            where: as for `sparkwright.data.from_minibatches`, which also takes `loader` and
                `on_error`: an export, a folder, a pattern, a list or RDD of URLs, a text file.
            loader: file -> DataSet; default None: files that `export` wrote.
            on_error: "raise" (default) or "skip" files that cannot be used.
            epochs: as for `fit`.
            validation: as `where`, with the same loader; or a DistributedDataSet or DataSet.
            early_stopping: as for `fit`.
            resume: as for `fit`.
            display: as for `fit`.

        Raises:
            What `from_minibatches` and `fit` raise.
        """
        if not (validation is None or isinstance(validation, (DistributedDataSet, DataSet))):
            validation = self._minibatches(validation, loader, on_error)
        return self.fit(
            self._minibatches(where, loader, on_error),
            epochs=epochs,
            validation=validation,
            early_stopping=early_stopping,
            resume=resume,
            display=display,
        )

    def delete_temp_files(self) -> bool:
        """Remove the minibatches that runs of this network exported; True when nothing is left."""
        return self._exports.delete()

    # -- evaluation -------------------------------------------------------------------------

    def do_evaluation(
        self,
        data: Any,
        evaluations: Evaluations,
        *,
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> Any:
        """Run several evaluations in one pass over the data, on the executors.

        Args:
            data: as for `fit`, with labels. Where the normalizer scales labels, evaluations see
                labels and predictions in the labels' own units.
            evaluations: an evaluation without data, such as `ROC()`; a list of them; or output
                name -> one or a list, for a network with several outputs.
            batch_size: examples a call; default 64.
            eval_workers: copies of the network at work at a time on an executor's machine; tasks
                beyond that wait for their turn. Default None: one for each task slot.

        Returns:
            The evaluations of all the data, in the form in which they were given.

        Raises:
            ConfigurationError: if there is no such output, or outputs are not named and there are
                several.
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        wanted = by_output(evaluations, output_names(self.model))
        data = self._distributed(data, "data")
        with self._inference(batch_size, eval_workers) as inference:
            found = evaluate(inference, data, wanted, normalizer=self.normalizer)
        return in_given_form(evaluations, found)

    def do_evaluation_paths(
        self,
        where: Any,
        evaluations: Evaluations,
        *,
        loader: Loader | None = None,
        on_error: OnError = "raise",
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> Any:
        """`do_evaluation` on files that hold minibatches; see `fit_paths` for `where`, `loader`."""
        data = self._minibatches(where, loader, on_error)
        return self.do_evaluation(
            data, evaluations, batch_size=batch_size, eval_workers=eval_workers
        )

    def evaluate(
        self,
        data: Any,
        *,
        batch_size: int = 64,
        class_names: Sequence[str] | None = None,
        top_n: int = 1,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> Evaluation:
        """Evaluate a classifier on the executors.

        Args:
            data: as for `fit`, with labels.
            batch_size: examples a call; default 64.
            class_names: names of the classes; default None: the data's own, or
                those of the data trained on.
            top_n: also count how often the class is among the `top_n` most probable; default 1.
            output: name of the network's output to look at; default None: the only one.
            eval_workers: as for `do_evaluation`.

        Returns:
            Accuracy, precision, recall, F1, confusion matrix and more, over all examples.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        data = self._distributed(data, "data")
        names = class_names or self._names_of_classes(data, output)
        return self._evaluate_one(
            Evaluation(
                None if names is None else tuple(names),
                top_n=top_n,
            ),
            data,
            output,
            batch_size,
            eval_workers,
        )

    def evaluate_roc(
        self,
        data: Any,
        *,
        thresholds: int = 0,
        batch_size: int = 64,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> ROC | ROCDigest:
        """ROC and precision-recall of a classifier with two classes.

        Args:
            data: as for `fit`, with labels.
            thresholds: 0 (default): exact, at every score that occurs. Above a million rows the
                cluster sorts them, and the driver gets a digest: exact areas, and a curve of some
                thousand exact points. n: counts at n + 1 thresholds from 0 to 1, in constant
                memory.
            batch_size: examples a call; default 64.
            output: name of the network's output to look at; default None: the only one.
            eval_workers: as for `do_evaluation`.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        prototype = ROC(thresholds=thresholds)
        return self._evaluate_one(prototype, data, output, batch_size, eval_workers)

    def evaluate_roc_multi_class(
        self,
        data: Any,
        *,
        thresholds: int = 0,
        class_names: Sequence[str] | None = None,
        batch_size: int = 64,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> ROCMultiClass:
        """ROC of each class against the rest; arguments as for `evaluate_roc`.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        data = self._distributed(data, "data")
        names = class_names or self._names_of_classes(data, output)
        prototype = ROCMultiClass(
            thresholds=thresholds, class_names=None if names is None else tuple(names)
        )
        return self._evaluate_one(prototype, data, output, batch_size, eval_workers)

    def evaluate_regression(
        self,
        data: Any,
        *,
        names: Sequence[str] | None = None,
        batch_size: int = 64,
        output: str | None = None,
        eval_workers: int | None = None,
    ) -> RegressionEvaluation:
        """Errors, correlation and R² of each predicted number.

        Args:
            data: as for `fit`, with labels. Where a normalizer scaled the labels, errors are in
                the labels' own units.
            names: of the numbers that the network predicts; default None: "0", "1", ….
            batch_size: examples a call; default 64.
            output: name of the network's output to look at; default None: the only one.
            eval_workers: as for `do_evaluation`.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        prototype = RegressionEvaluation(names=None if names is None else tuple(names))
        return self._evaluate_one(prototype, data, output, batch_size, eval_workers)

    def evaluate_paths(
        self,
        where: Any,
        *,
        loader: Loader | None = None,
        on_error: OnError = "raise",
        batch_size: int = 64,
        class_names: Sequence[str] | None = None,
    ) -> Evaluation:
        """`evaluate` on files that hold minibatches; see `fit_paths` for the first arguments."""
        data = self._minibatches(where, loader, on_error)
        return self.evaluate(data, batch_size=batch_size, class_names=class_names)

    # -- scoring ----------------------------------------------------------------------------

    def score(
        self,
        data: Any,
        *,
        average: bool = True,
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> float:
        """The loss, regularisation included, over `data`.

        Args:
            data: as for `fit`, with labels.
            average: the mean over the examples (default); else their sum.
            batch_size: examples a call; default 64.
            eval_workers: as for `do_evaluation`.

        Raises:
            DataError: if the data does not fit the network or has no labels, or is empty.
        """
        data = self._distributed(data, "data")
        with self._inference(batch_size, eval_workers) as inference:
            found = score(inference, self._normalized(data))
        return found.total / found.examples if average else found.total

    def score_paths(
        self,
        where: Any,
        *,
        loader: Loader | None = None,
        on_error: OnError = "raise",
        average: bool = True,
        batch_size: int = 64,
    ) -> float:
        """`score` on files that hold minibatches; see `fit_paths` for the first arguments."""
        data = self._minibatches(where, loader, on_error)
        return self.score(data, average=average, batch_size=batch_size)

    def score_examples(
        self,
        data: Any,
        *,
        regularization: bool = True,
        keyed: bool = False,
        batch_size: int = 64,
        eval_workers: int | None = None,
    ) -> "RDD[Any]":
        """The loss that each example has by itself: which ones does the network get wrong?

        Args:
            data: as for `fit`, with labels; or with `keyed=True` an RDD of (key, DataSet of one
                example) or (key, (features, label)).
            regularization: whether the network's regularisation terms, the same for every example,
                are added; default True.
            keyed: whether `data` has keys; default False.
            batch_size: examples a call; default 64.
            eval_workers: as for `do_evaluation`.

        Returns:
            A lazy RDD of floats in the order of the data, or of (key, float).

        Raises:
            DataError: when the RDD is computed, if the data does not fit the network, has no
                labels, or a key not exactly one example.
        """
        inference = Inference.of(
            self.spark, self.model, batch_size=batch_size, workers=eval_workers
        )
        if keyed:
            return score_keyed(
                inference,
                _require_rdd(data),
                normalizer=self.normalizer,
                regularization=regularization,
            )
        found = self._normalized(self._distributed(data, "data"))
        return score_examples(inference, found, regularization=regularization)

    # -- inference --------------------------------------------------------------------------

    def predict(
        self,
        data: Any,
        *,
        batch_size: int = 64,
        features: str | Sequence[str] | None = None,
        output_column: str = "prediction",
        eval_workers: int | None = None,
    ) -> Any:
        """What the network says, computed on the executors; of the kind that was given.

        Labels that a normalizer scaled are predicted in their own units. Order and keys are kept.
        Sequences may differ in length from one example to the next where the network allows it.

        Args:
            data: one of

                - a DistributedDataSet, also of files: gives one whose features are the outputs, by
                  output name; labels and weights stay beside them. Lazy.
                - a DataFrame: gives the DataFrame with one column more. Lazy.
                - an RDD of (key, features): gives (key, outputs). Features are an array of one
                  example, or of several with one more axis in front, which then the outputs have as
                  well; for several inputs a dict of names or a list in order; with masks a tuple
                  (features, masks), or a DataSet. Outputs are an array, or a dict by output name if
                  there are several. Lazy.
                - an array, or a dict input name -> array: gives an array, or a dict by output
                  name. At once.
                - a DataSet: gives a DataSet, as the first. At once.
            batch_size: examples a call; default 64.
            features: for a DataFrame: its columns, one an input or, for a single input, its
                numbers. Default None: those of the table trained on if it has all of them,
                otherwise `features`.
            output_column: for a DataFrame: the new column. An output of one number is a number,
                others are arrays; several outputs are a struct with their names. Default
                "prediction".
            eval_workers: as for `do_evaluation`.

        Raises:
            DataError: if the data does not fit the network; for lazy kinds when it is computed.
        """
        from pyspark import RDD
        from pyspark.sql import DataFrame

        if isinstance(data, DataFrame):
            return self._predict_frame(data, batch_size, features, output_column, eval_workers)
        if features is not None or output_column != "prediction":
            raise ConfigurationError(
                "`features` and `output_column` are for DataFrames. Received: "
                f"{type(data).__name__}."
            )
        inference = Inference.of(
            self.spark, self.model, batch_size=batch_size, workers=eval_workers
        )
        what = Predicting(normalizer=self.normalizer)
        if isinstance(data, RDD):
            return predict_keyed(
                inference,
                data,
                inputs={name: len(shape) for name, shape in input_shapes(self.model).items()},
                normalizer=self.normalizer,
                what=what,
            )
        if isinstance(data, DistributedDataSet):
            return predict_dataset(inference, data, normalizer=self.normalizer, what=what)
        dataset = data if isinstance(data, DataSet) else DataSet(data)
        lazy = predict_dataset(
            inference, self._distributed(dataset, "data"), normalizer=self.normalizer, what=what
        )
        found = run_job(self.spark, lazy.collect, description="predict")
        if isinstance(data, DataSet):
            return found
        arrays = found.features
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays

    def as_udf(self, *, batch_size: int = 64, eval_workers: int | None = None) -> Any:
        """The network as a function of Spark SQL, with the weights that it has now.

        For a network trained on a table (`from_csv` and the like, see `schema`) the arguments are
        that table's feature columns, in its order, texts included. Otherwise they are one column an
        input, numbers or arrays; or for a single input its numbers, one a column. Spark ML's
        vectors go through `pyspark.ml.functions.vector_to_array`. Missing values are an error.

        Args:
            batch_size: examples a call; default 64.
            eval_workers: as for `do_evaluation`.

        Returns:
            A function of columns, for `select` and `withColumn`, or `spark.udf.register(name, …)`
            for queries. Its value is a number where an example's output is one; otherwise an array,
            nested like the output; for several outputs a struct of them by name.

        Example:
            spark.udf.register("survives", network.as_udf())
            spark.sql("SELECT name, survives(class, age) FROM passengers")
        """
        return self._udf(self.schema, batch_size, eval_workers)

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
    ) -> None:
        """Write the model to `url`, atomically; see `save_model`.

        The normalizer, the names of classes and the schema of the table, with the categories of
        text, go into the same file, which Keras reads as ever; so does how the model was trained.

        Args:
            url: where to.
            save_updater: with the optimizer's state (default True), so that training can go on.
            metrics: JSON-able results by name, for `model_info`; default none.
            title: a few words, likewise.
            comment: more of them.
            saved_by: who; default "auto": user and machine. None: not kept.

        Raises:
            What `save_model` raises.
        """
        notes: dict[str, Any] = {}
        if self.normalizer is not None:
            notes["normalizer"] = self.normalizer.to_dict()
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
    ) -> "SparkNetwork":
        """A network with all that `save` kept at `url`; see `load_model`.

        Without a `master`, that of a Keras HDF5 file with `distributed_config` is taken, if it is
        one; see `load_distributed_model`. With `safe_mode=False`, code in the file is EXECUTED.
        """
        if master is None:
            master = distributed_master(url)
        model = load_model(url, custom_objects=custom_objects, safe_mode=safe_mode)
        network = cls(spark, model, master, normalizer=load_normalizer(url))
        notes = read_notes(url)
        class_names = notes.get("class_names", {})
        network.class_names = {name: tuple(names) for name, names in class_names.items()}
        if notes.get("schema") is not None:
            network.schema = TableSchema.from_dict(notes["schema"])
        return network

    # -- private ----------------------------------------------------------------------------

    def _require_master(self) -> TrainingMaster:
        if self.master is None:
            raise ConfigurationError(
                "training needs a training master. Received: master=None. Give one: "
                "`SparkNetwork(spark, model, ParameterAveragingTrainingMaster())`."
            )
        if self._active is not None and not self._active.finished:
            raise ConfigurationError(
                f"this network is being trained by {self._active.id}: two runs would overwrite "
                "each other's result. Wait for it, stop it, or train a clone in another network."
            )
        return self.master

    def _distributed(self, data: Any, name: str) -> DistributedDataSet:
        from pyspark import RDD
        from pyspark.sql import DataFrame

        if isinstance(data, DistributedDataSet):
            return data
        if isinstance(data, RDD):
            return from_rdd(self.spark, data)
        if isinstance(data, DataFrame):
            return from_features_and_label(data)
        if isinstance(data, DataSet):
            return from_arrays(
                self.spark,
                data.features,
                data.labels,
                features_masks=data.features_masks,
                labels_masks=data.labels_masks,
                weights=data.weights,
            )
        raise DataError(
            f"`{name}` must be a DistributedDataSet, an RDD, a DataFrame or a DataSet. Received: "
            f"{type(data).__name__}. See `sparkwright.data`."
        )

    def _minibatches(
        self, where: Any, loader: Loader | None, on_error: OnError
    ) -> DistributedDataSet:
        return from_minibatches(self.spark, where, loader=loader, on_error=on_error)

    def _normalized(self, data: DistributedDataSet) -> DistributedDataSet:
        return data if self.normalizer is None else self.normalizer.transform(data)

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
            "spark_master": self.spark.sparkContext.master,
            "environment": {
                "sparkwright": __version__,
                "python": platform.python_version(),
                "keras": keras.__version__,
                "pyspark": pyspark.__version__,
                "platform": platform.platform(),
            },
        }

    def _names_of_classes(
        self, data: DistributedDataSet, output: str | None
    ) -> tuple[str, ...] | None:
        known = data.class_names or self.class_names
        if output in known:
            return known[output]
        return next(iter(known.values()), None) if len(known) == 1 else None

    def _evaluate_one(
        self,
        prototype: Any,
        data: Any,
        output: str | None,
        batch_size: int,
        eval_workers: int | None,
    ) -> Any:
        wanted = prototype if output is None else {output: prototype}
        found = self.do_evaluation(data, wanted, batch_size=batch_size, eval_workers=eval_workers)
        return found if output is None else found[output]

    @contextlib.contextmanager
    def _inference(self, batch_size: int, workers: int | None) -> "Generator[Inference]":
        inference = Inference.of(self.spark, self.model, batch_size=batch_size, workers=workers)
        try:
            yield inference
        finally:
            inference.close()

    def _predict_frame(
        self,
        frame: "DataFrame",
        batch_size: int,
        features: str | Sequence[str] | None,
        output_column: str,
        eval_workers: int | None,
    ) -> "DataFrame":
        if output_column in frame.columns:
            raise ConfigurationError(
                "`output_column` must be a new one. Received: "
                f"output_column={output_column!r}, which the DataFrame has already."
            )
        schema, names = None, ["features"] if features is None else features
        if features is None and self.schema is not None:
            known = schema_columns(self.schema)
            if set(known) <= set(frame.columns):
                schema, names = self.schema, known
        function = self._udf(schema, batch_size, eval_workers)
        names = [names] if isinstance(names, str) else list(names)
        return frame.withColumn(output_column, function(*columns_of(frame, names)))

    def _udf(self, schema: TableSchema | None, batch_size: int, workers: int | None) -> Any:
        return sql_function(
            Inference.of(self.spark, self.model, batch_size=batch_size, workers=workers),
            reader=ColumnReader(inputs=input_shapes(self.model), schema=schema),
            outputs=output_types(self.model),
            normalizer=self.normalizer,
            what=Predicting(normalizer=self.normalizer),
        )


def _require_rdd(data: Any) -> "RDD[Any]":
    from pyspark import RDD

    if not isinstance(data, RDD):
        raise DataError(f"data with keys must be an RDD of pairs. Received: {type(data).__name__}.")
    return data
