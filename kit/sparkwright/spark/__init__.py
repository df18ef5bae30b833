"""Everything that talks to Spark."""

from ._network import SparkNetwork as SparkNetwork
from ._session import start_spark as start_spark
