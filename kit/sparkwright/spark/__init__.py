"""Training, evaluation and prediction on Spark, and Spark sessions."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from sparkwright.cluster.engine_shipping import send_by_value as send_by_value

    from ._adapting import adapt as adapt
    from ._network import SparkNetwork as SparkNetwork
    from ._saved_networks import load_distributed_model as load_distributed_model
    from ._session import start_spark as start_spark
    from ._surveying import survey_partitions as survey_partitions
    from .memory_parts import MemoryPart as MemoryPart
    from .spark_settings import SparkSettings as SparkSettings

__getattr__, __dir__ = _lazy_names(__name__)
