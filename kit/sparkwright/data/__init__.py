"""Examples: in memory, on the wire, and distributed over Spark."""

from ._arrow import from_bytes as from_bytes, row_count as row_count, to_bytes as to_bytes
from ._dataset import DataSet as DataSet
