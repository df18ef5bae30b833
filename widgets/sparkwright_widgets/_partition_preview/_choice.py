"""What the preview is asked: the choice and what it depends on. Pure."""

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.partitions import (
    PartitionForecast,
    PartitionSurvey,
    RepartitionMode,
    RepartitionStrategy,
    compare_repartitions,
)
from sparkwright.partitions.forecasting import BANDWIDTH_BYTES_PER_S, TrainingKind

# Chosen in the preview itself; the others are set by what is around it, unless it stands alone.
CHOSEN = ("mode", "strategy")
CHOSEN_ALONE = (*CHOSEN, "workers", "batch_size")
# What may be worked out within a callback; more of it goes to a thread.
_ROWS_AT_ONCE = 3_000_000
_PARTITIONS_AT_ONCE = 500


@configuration
class Choice(Configuration):
    """A repartition, and for which training."""

    mode: RepartitionMode = option(
        default="always",
        label="Repartition",
        help="always: cut the data anew. num_partitions_workers_differs: only if there are more "
        "or fewer partitions than workers. never: whole partitions to each worker.",
    )
    strategy: RepartitionStrategy = option(
        default="balanced",
        help="balanced: equal blocks in order. approximate_balanced: moves only what is too "
        "much somewhere. spark_default: deals rows out one by one.",
    )
    workers: int = option(default=2, minimum=1, maximum=100_000, help="How many train.")
    batch_size: int = option(
        default=32,
        minimum=1,
        label="Minibatch of a worker",
        unit="rows",
        help="Rows of a worker's minibatch.",
    )
    kind: TrainingKind = option(default="averaging", help="How the workers train together.")
    step_s: float | None = option(
        default=None, none_text="not known", help="Seconds of a minibatch."
    )
    bandwidth_bytes_per_s: float | None = option(
        default=None, none_text="not measured", help="Bytes that a worker sends in a second."
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
