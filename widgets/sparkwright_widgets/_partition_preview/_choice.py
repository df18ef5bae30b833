"""The options of the preview. Pure."""

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.partitions import (
    PartitionForecast,
    PartitionSurvey,
    RepartitionMode,
    RepartitionStrategy,
    compare_repartitions,
)
from sparkwright.partitions.forecasting import TrainingKind

# Fields of an embedded preview, whose other options are set by `set_context`.
CHOSEN = ("mode", "strategy")
CHOSEN_ALONE = (*CHOSEN, "workers", "batch_size")
# Limits for computing within a callback; larger forecasts run on a background thread.
_ROWS_AT_ONCE = 3_000_000
_PARTITIONS_AT_ONCE = 500


@configuration
class Choice(Configuration):
    """A repartition, and the training that it prepares."""

    mode: RepartitionMode = option(
        default="always",
        label="Repartition",
        help="always: repartition every time. num_partitions_workers_differs: only if the numbers "
        "of partitions and workers differ. never: assign whole partitions to workers.",
    )
    strategy: RepartitionStrategy = option(
        default="balanced",
        help="balanced: equal blocks in order. approximate_balanced: moves only the surplus of "
        "large partitions. spark_default: distributes rows round-robin.",
    )
    workers: int = option(default=2, minimum=1, maximum=100_000, help="Number of workers.")
    batch_size: int = option(
        default=32,
        minimum=1,
        label="Minibatch size",
        unit="rows",
        help="Rows per minibatch and worker.",
    )
    kind: TrainingKind = option(default="averaging", help="How workers are synchronized.")
    step_s: float | None = option(
        default=None, none_text="not known", help="Seconds per minibatch."
    )

    def is_quick(self, survey: PartitionSurvey) -> bool:
        """Whether all forecasts can be computed within a callback."""
        size = max(len(survey.rows), self.workers)
        return survey.total <= _ROWS_AT_ONCE and size <= _PARTITIONS_AT_ONCE

    def forecasts(self, survey: PartitionSurvey) -> tuple[PartitionForecast, ...]:
        """The forecast of each mode and strategy."""
        return compare_repartitions(
            survey,
            workers=self.workers,
            batch_size=self.batch_size,
            kind=self.kind,
            step_s=self.step_s,
        )

    def among(self, forecasts: tuple[PartitionForecast, ...]) -> PartitionForecast:
        return next(
            each
            for each in forecasts
            if each.plan.mode == self.mode
            and (self.mode == "never" or each.plan.strategy == self.strategy)
        )
