"""Data that a DataSource stands for, on Spark."""

from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.data._distributed import DistributedDataSet

    from ._data_source import DataSource


def load(source: "DataSource", spark: "SparkSession") -> "DistributedDataSet":
    """See `DataSource.load`."""
    import sparkwright.data

    if source.problem is not None:
        raise ConfigurationError(f"the data source is not complete. {source.problem}")
    call = source.call()
    function: Any = getattr(sparkwright.data, call.function)
    if call.is_table:
        return function(spark.table(source.url), **call.keywords)
    return function(spark, *([] if call.place is None else [call.place]), **call.keywords)


def load_split(source: "DataSource", spark: "SparkSession") -> "dict[str, DistributedDataSet]":
    """See `DataSource.load_split`."""
    data = load(source, spark)
    shares = source.split.shares
    if len(shares) < 2:
        return {"train": data}
    split = data.stratified_split if source.split.kind == "stratified" else data.random_split
    parts = split(list(shares.values()), seed=source.split.seed)
    return dict(zip(shares, parts, strict=True))
