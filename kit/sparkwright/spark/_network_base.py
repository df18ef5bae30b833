"""What training, evaluating and predicting with a network on Spark have in common."""

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from sparkwright.data import (
    DataSet,
    DistributedDataSet,
    Normalizer,
    TableSchema,
    from_arrays,
    from_minibatches,
    from_rdd,
)
from sparkwright.data._from_spark import from_features_and_label
from sparkwright.data._minibatches._loaders import Loader
from sparkwright.data._pieces import OnError
from sparkwright.errors import DataError

from ._inference import Inference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NetworkOnSpark:
    """A network, the session that it works in, and what is known of its data.

    Attributes:
        spark: the session.
        model: the keras.Model.
        normalizer: applied to all data that goes through the network; None: none.
        class_names: output name -> names of its classes, of the data last trained on, or as saved.
        schema: how a table became the data last trained on, or as saved; None: it came from none.
    """

    def __init__(self, spark: "SparkSession", model: Any, *, normalizer: Normalizer | None) -> None:
        """Use `SparkNetwork`."""
        self.spark, self.model, self.normalizer = spark, model, normalizer
        self.class_names: dict[str, tuple[str, ...]] = {}
        self.schema: TableSchema | None = None

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

    def _lasting_inference(self, batch_size: int, workers: int | None) -> Inference:
        """The network as it is now, for results that are computed later, if ever."""
        return Inference.of(self.spark, self.model, batch_size=batch_size, workers=workers)

    @contextlib.contextmanager
    def _inference(self, batch_size: int, workers: int | None) -> "Generator[Inference]":
        """The network as it is now, for results that are computed within the block."""
        inference = self._lasting_inference(batch_size, workers)
        try:
            yield inference
        finally:
            inference.close()
