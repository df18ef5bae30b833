"""Examples: in memory, on the wire, and distributed over Spark."""

from ._arrow import from_bytes as from_bytes, row_count as row_count, to_bytes as to_bytes
from ._chunks import batched as batched
from ._dataset import DataSet as DataSet, MultiDataSet as MultiDataSet
from ._digits import digits as digits
from ._distributed import DistributedDataSet as DistributedDataSet
from ._from_arrays import from_arrays as from_arrays
from ._from_spark import from_dataframe as from_dataframe, from_rdd as from_rdd
from ._skipped import Skipped as Skipped
