"""Distributed prediction with a network, for every kind of data."""

import contextlib
import os
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.jobs import run_job
from sparkwright.data import (
    DataSet,
    DataSource,
    DistributedDataSet,
    Normalizer,
    TableSchema,
    from_arrays,
    from_minibatches,
    from_rdd,
)
from sparkwright.data.frames import FrameColumns
from sparkwright.data.from_spark import from_frame
from sparkwright.data.in_memory import conversion_of, in_memory, is_pandas
from sparkwright.data.loaders import Loader
from sparkwright.data.pieces import OnError
from sparkwright.data.spark_columns import addressed
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.networks.signature import input_shapes, output_types

from ._inference import Inference
from ._predicting import predict_dataset, predict_keyed
from ._sql import ColumnReader, schema_columns, sql_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PredictingNetwork:
    """The part of `SparkNetwork` that predicts: a model, its normalizer and its metadata.

    Attributes:
        spark: the session.
        model: the keras.Model.
        normalizer: applied to all training, evaluation and prediction data; None: none.
        class_names: output name -> class names, from the latest training data or the saved file.
        schema: `TableSchema` of the latest training data or the saved file; None: not from a table.
    """

    def __init__(self, spark: "SparkSession", model: Any, *, normalizer: Normalizer | None) -> None:
        """Use `SparkNetwork`."""
        self.spark, self.model, self.normalizer = spark, model, normalizer
        self.class_names: dict[str, tuple[str, ...]] = {}
        self.schema: TableSchema | None = None

    def predict(
        self,
        data: Any,
        *,
        batch_size: int = 64,
        features: str | Sequence[str] | None = None,
        output_column: str = "prediction",
        eval_workers: int | None = None,
        verbose: Any = None,
    ) -> Any:
        """Compute the network's outputs on the executors; returns the kind of data given.

        Outputs are in the original units of the labels if a normalizer scaled them. Order and keys
        are kept. Sequences may differ in length between examples if the network allows it.

        Args:
            data: one of

                - a DistributedDataSet, also of files: returns one whose features are the outputs,
                  by output name, with the same labels and weights. Lazy.
                - a Spark DataFrame: returns the DataFrame with an additional column. Lazy.
                - an RDD of (key, features): returns an RDD of (key, outputs). Features are an array
                  of one example, or of several with a batch axis, which the outputs then also have;
                  for several inputs a dict by name or a list in order; with masks a tuple
                  (features, masks) or a DataSet. Outputs are an array, or a dict by output name if
                  there are several. Lazy.
                - an array, a dict from input name to array, or a pandas DataFrame: returns an
                  array, or a dict by output name. Computed immediately.
                - a DataSet: returns a DataSet whose features are the outputs. Computed immediately.
            batch_size: examples per call; default 64.
            features: columns of a DataFrame, one per input or, for a single input, one per number.
                Default None: the columns of the training table if all exist; otherwise `features`,
                or all columns in pandas.
            output_column: name of the new column of a Spark DataFrame. It holds a number if the
                output has one number, otherwise an array; several outputs are a struct by name.
                Default "prediction".
            eval_workers: as for `do_evaluation`.
            verbose: accepted as in Keras, but nothing is displayed; default None.

        Raises:
            DataError: if the data does not fit the network; for lazy results, on computation.
        """
        from pyspark import RDD
        from pyspark.sql import DataFrame

        if isinstance(data, DataFrame):
            return self._predict_frame(data, batch_size, features, output_column, eval_workers)
        if output_column != "prediction" or not (features is None or is_pandas(data)):
            raise ConfigurationError(
                "`features` needs a DataFrame, and `output_column` a Spark DataFrame. Received: "
                f"{type(data).__name__}."
            )
        if isinstance(data, RDD):
            return predict_keyed(
                self._lasting_inference(batch_size, eval_workers),
                data,
                inputs={name: len(shape) for name, shape in input_shapes(self.model).items()},
                normalizer=self.normalizer,
            )
        if isinstance(data, DistributedDataSet):
            inference = self._lasting_inference(batch_size, eval_workers)
            return predict_dataset(inference, data, normalizer=self.normalizer)
        dataset = self._features_of(data, features)
        given = self._distributed(dataset, "data")
        with self._inference(batch_size, eval_workers) as inference:
            lazy = predict_dataset(inference, given, normalizer=self.normalizer)
            found = run_job(self.spark, lazy.collect, description="predict")
        if isinstance(data, DataSet):
            return found
        arrays = found.features
        return next(iter(arrays.values())) if len(arrays) == 1 else arrays

    def as_udf(self, *, batch_size: int = 64, eval_workers: int | None = None) -> Any:
        """Return the network with its current weights as a Spark SQL function.

        For a network trained on a table (`from_csv` and similar, see `schema`), the arguments are
        the table's feature columns in order, including text columns. Otherwise, pass one column of
        numbers or arrays per input, or for a single input one column per number. Convert Spark ML
        vectors with `pyspark.ml.functions.vector_to_array`. Missing values raise an error, unless
        the table was read with `missing` as a number, "mean" or "median".

        Args:
            batch_size: examples per call; default 64.
            eval_workers: as for `do_evaluation`.

        Returns:
            A function of columns, for `select`, `withColumn` or `spark.udf.register(name, …)`. It
            returns a number if an example's output is one number; otherwise a nested array; for
            several outputs, a struct of them by name.

        Example:
            spark.udf.register("survives", network.as_udf())
            spark.sql("SELECT name, survives(class, age) FROM passengers")
        """
        return self._udf(self.schema, batch_size, eval_workers)

    # -- private ----------------------------------------------------------------------------

    def _features_of(self, data: Any, features: str | Sequence[str] | None) -> DataSet:
        """Convert data in memory to a DataSet of features."""
        if not (is_pandas(data) or isinstance(data, tuple)):
            return data if isinstance(data, DataSet) else DataSet(data)
        chosen = FrameColumns(
            features=[features] if isinstance(features, str) else features,
            label=None if features is None else (),
        )
        schema = None if self.schema is None else self.schema.without_labels()
        if is_pandas(data) and schema is None and features is None:
            chosen = FrameColumns(label=())
        found = in_memory(data, chosen=chosen, schema=schema)
        assert found is not None
        return DataSet(found.data.features)

    def _distributed(
        self,
        data: Any,
        name: str,
        *,
        chosen: FrameColumns | None = None,
        schema: TableSchema | None = None,
    ) -> DistributedDataSet:
        """Distribute data; DataFrame columns are selected by `chosen`, else by `schema`."""
        from pyspark import RDD
        from pyspark.sql import DataFrame

        # PySpark's `stop` sets `_jsc` to None.
        if getattr(getattr(self.spark, "sparkContext", ""), "_jsc", "") is None:
            raise ConfigurationError(
                "a network needs a running Spark session. Received: a stopped session. Start "
                "another with `start_spark()`, and create the data and the network with it."
            )
        if isinstance(data, DistributedDataSet):
            return data
        if isinstance(data, DataSource):
            return data.load(self.spark)
        if isinstance(data, str | os.PathLike):
            return from_minibatches(self.spark, data)
        if isinstance(data, RDD):
            return from_rdd(self.spark, data)
        if isinstance(data, DataFrame):
            return from_frame(data, chosen or FrameColumns(), schema)
        local = in_memory(data, option=name, chosen=chosen, schema=schema)
        if local is not None:
            found = from_arrays(self.spark, local.data)
            found.class_names = {n: tuple(names) for n, names in local.class_names.items()}
            found.schema = getattr(local, "schema", None)
            return found
        raise DataError(
            f"`{name}` must be a DistributedDataSet, a DataSource, a URL of minibatches, an RDD, a "
            "DataFrame of Spark or pandas, a DataSet, or a tuple (features, labels) of arrays. "
            f"Received: {type(data).__name__}.{conversion_of(data) or ' See `sparkwright.data`.'}"
        )

    def _minibatches(
        self, where: Any, loader: Loader | None, on_error: OnError
    ) -> DistributedDataSet:
        return from_minibatches(self.spark, where, loader=loader, on_error=on_error)

    def _normalized(self, data: Any) -> Any:
        """Return a DistributedDataSet or TfData that is normalized when it is read."""
        return data if self.normalizer is None else self.normalizer.transform(data)

    def _lasting_inference(self, batch_size: int, workers: int | None) -> Inference:
        """Return a snapshot of the network, for results that are computed later, if ever."""
        return Inference.of(self.spark, self.model, batch_size=batch_size, workers=workers)

    @contextlib.contextmanager
    def _inference(self, batch_size: int, workers: int | None) -> "Generator[Inference]":
        """Provide a snapshot of the network for results that are computed within the block."""
        inference = self._lasting_inference(batch_size, workers)
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
        is_exact = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
        same = [
            name
            for name in frame.columns
            if name == output_column or (not is_exact and name.lower() == output_column.lower())
        ]
        if same:
            raise ConfigurationError(
                "`output_column` must be a new column. Received: "
                f"output_column={output_column!r}, but the DataFrame already has {same[0]!r}."
            )
        schema, names = None, ["features"] if features is None else features
        if features is None and self.schema is not None:
            known = schema_columns(self.schema)
            if set(known) <= set(frame.columns):
                schema, names = self.schema, known
        function = self._udf(schema, batch_size, eval_workers)
        names = [names] if isinstance(names, str) else list(names)
        there, columns = addressed(frame, names)
        predicted = there.withColumn(output_column, function(*columns))
        return predicted if there is frame else predicted.toDF(*frame.columns, output_column)

    def _udf(self, schema: TableSchema | None, batch_size: int, workers: int | None) -> Any:
        return sql_function(
            self._lasting_inference(batch_size, workers),
            reader=ColumnReader(inputs=input_shapes(self.model), schema=schema),
            outputs=output_types(self.model),
            normalizer=self.normalizer,
        )
