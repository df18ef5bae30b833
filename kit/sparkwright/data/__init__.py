"""Examples: in memory, on the wire, and distributed over Spark."""

from ._arrow import from_bytes as from_bytes, row_count as row_count, to_bytes as to_bytes
from ._dataset import DataSet as DataSet
from ._distributed import (
    DistributedDataSet as DistributedDataSet,
    digits as digits,
    from_arrays as from_arrays,
    from_dataframe as from_dataframe,
    from_rdd as from_rdd,
)
