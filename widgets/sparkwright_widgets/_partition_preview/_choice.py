"""What the preview is asked: the choice and what it depends on. Pure."""

from dataclasses import dataclass
from typing import get_args

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option
from sparkwright.partitions import (
    PartitionForecast,
    PartitionSurvey,
    RepartitionMode,
    RepartitionStrategy,
    compare_repartitions,
)
from sparkwright.partitions._forecast import BANDWIDTH_BYTES_PER_S, TrainingKind

OPTIONS = (
    Option(
        name="mode",
        kind="choice",
        default="always",
        label="Repartition",
        choices=("always", "num_partitions_workers_differs", "never"),
        help="always: cut the data anew. num_partitions_workers_differs: only if there are more "
        "or fewer partitions than workers. never: whole partitions to each worker.",
    ),
    Option(
        name="strategy",
        kind="choice",
        default="balanced",
        label="Strategy",
        choices=get_args(RepartitionStrategy),
        help="balanced: equal blocks in order. approximate_balanced: moves only what is too "
        "much somewhere. spark_default: deals rows out one by one.",
    ),
)
CONTEXT = (
    Option(name="workers", kind="int", default=2, minimum=1, maximum=100_000, label="Workers"),
    Option(
        name="batch_size",
        kind="int",
        default=32,
        minimum=1,
        label="Minibatch of a worker",
        unit="rows",
    ),
)
# What may be worked out within a callback; more of it goes to a thread.
_ROWS_AT_ONCE = 3_000_000
_PARTITIONS_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A repartition, and for which training.

    Attributes:
        mode: when to repartition.
        strategy: how.
        workers: how many train.
        batch_size: rows of a worker's minibatch.
        kind: "averaging" or "sharing".
        step_s: seconds of a minibatch; None: not known.
        bandwidth_bytes_per_s: what a worker sends in a second; None: not measured.
    """

    mode: RepartitionMode = "always"
    strategy: RepartitionStrategy = "balanced"
    workers: int = 2
    batch_size: int = 32
    kind: TrainingKind = "averaging"
    step_s: float | None = None
    bandwidth_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for option in (*OPTIONS, *CONTEXT):
            option.check(getattr(self, option.name))
        if self.kind not in get_args(TrainingKind):
            raise ConfigurationError(
                f'`kind` must be "averaging" or "sharing". Received: kind={self.kind!r}.'
            )

    def is_quick(self, survey: PartitionSurvey) -> bool:
        """Whether all forecasts are worked out in a moment."""
        size = max(len(survey.rows), self.workers)
        return survey.total <= _ROWS_AT_ONCE and size <= _PARTITIONS_AT_ONCE

    def forecasts(self, survey: PartitionSurvey) -> tuple[PartitionForecast, ...]:
        """What each mode and strategy would do."""
        return compare_repartitions(
            survey,
            workers=self.workers,
            batch_size=self.batch_size,
            kind=self.kind,
            step_s=self.step_s,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s or BANDWIDTH_BYTES_PER_S,
        )

    def among(self, forecasts: tuple[PartitionForecast, ...]) -> PartitionForecast:
        """The forecast of this choice."""
        return next(
            each
            for each in forecasts
            if each.plan.mode == self.mode
            and (self.mode == "never" or each.plan.strategy == self.strategy)
        )
