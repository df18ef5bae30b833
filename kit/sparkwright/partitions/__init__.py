"""How the data lies in partitions, what a repartition would change, and doing it on Spark."""

from ._execute import count_examples as count_examples, repartition as repartition
from ._grouping import group_partitions as group_partitions
from ._plan import (
    RepartitionAction as RepartitionAction,
    RepartitionMode as RepartitionMode,
    RepartitionPlan as RepartitionPlan,
    RepartitionStrategy as RepartitionStrategy,
    destinations as destinations,
    plan_repartition as plan_repartition,
)
