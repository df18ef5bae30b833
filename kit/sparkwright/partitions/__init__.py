"""Survey the partitions of data, forecast a repartition, and execute it on Spark."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._advice import (
        advice_on as advice_on,
        compare_repartitions as compare_repartitions,
        recommended as recommended,
    )
    from ._placements import group_partitions as group_partitions
    from ._plan import (
        RepartitionAction as RepartitionAction,
        RepartitionMode as RepartitionMode,
        RepartitionPlan as RepartitionPlan,
        RepartitionStrategy as RepartitionStrategy,
        plan_repartition as plan_repartition,
    )
    from ._repartitioner import (
        DefaultRepartitioner as DefaultRepartitioner,
        NoRepartitioner as NoRepartitioner,
        Repartitioner as Repartitioner,
        piece_size as piece_size,
    )
    from .execute import repartition as repartition
    from .forecasting import (
        PartitionForecast as PartitionForecast,
        PartitionLayout as PartitionLayout,
        forecast as forecast,
    )
    from .survey import PartitionSurvey as PartitionSurvey

__getattr__, __dir__ = _lazy_names(__name__)
