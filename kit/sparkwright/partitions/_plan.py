"""Plan a repartition from counts, before data moves."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from sparkwright.errors import DataError
from sparkwright.evaluation.reports import aligned
from sparkwright.options import check_choice, check_count

from ._placements import (
    ApproximateBalanced,
    Balanced,
    Grouped,
    Placement,
    SparkDefault,
    group_partitions,
)

RepartitionMode = Literal["always", "never", "num_partitions_workers_differs"]
RepartitionStrategy = Literal["balanced", "approximate_balanced", "spark_default"]
RepartitionAction = Literal["unchanged", "grouped", "shuffled"]
_MOST_SHOWN = 40  # partitions in the text of a plan


@dataclass(frozen=True, kw_only=True, slots=True)
class RepartitionPlan:
    """The target of every example; created by `plan_repartition`, executed by `repartition`.

    Attributes:
        mode: the requested mode.
        strategy: the requested strategy; used only if `action` is "shuffled".
        seed: of `spark_default`.
        action: "unchanged": the data does not change. "grouped": whole partitions are assigned to
            workers without splits or shuffles. "shuffled": single examples move.
        source_counts: examples in each partition now.
        target_counts: examples in each partition afterwards; one partition for each worker.
        groups: the worker of each source partition when `action` is "grouped", else empty.
        rows_moved: examples whose partition index changes.
    """

    mode: RepartitionMode
    strategy: RepartitionStrategy
    seed: int
    action: RepartitionAction
    source_counts: tuple[int, ...]
    target_counts: tuple[int, ...]
    groups: tuple[int, ...] = ()
    rows_moved: int

    def __post_init__(self) -> None:
        if sum(self.source_counts) != sum(self.target_counts):
            raise DataError(
                "a plan must keep every example. Received: "
                f"{sum(self.source_counts)} examples before, {sum(self.target_counts)} after."
            )

    @property
    def workers(self) -> int:
        """Number of workers, and of partitions afterwards."""
        return len(self.target_counts)

    @property
    def changed(self) -> bool:
        """Whether the plan changes the partitions."""
        return self.action != "unchanged"

    @property
    def skew_before(self) -> float:
        """Size of the largest partition now divided by the mean; 1 is even."""
        return _max_over_mean(self.source_counts)

    @property
    def skew_after(self) -> float:
        """Size of the largest partition afterwards divided by the mean; 1 is even."""
        return _max_over_mean(self.target_counts)

    @property
    def idle_fraction(self) -> float:
        """Fraction of the workers' time spent waiting for the worker with most examples, 0 to 1.

        Equals `1 - mean / max` of the counts afterwards, for workers of equal speed. The plan of
        mode "never" has the value without a repartition.
        """
        return 1.0 - 1.0 / self.skew_after

    def placement(self) -> Placement:
        """The rule behind `destinations`, for chunk-wise use."""
        if self.action == "grouped":
            return Grouped(self.source_counts, self.workers, self.groups)
        if self.action == "unchanged":
            return Grouped(self.source_counts, self.workers, tuple(range(self.workers)))
        return _placement(self.strategy, self.source_counts, self.workers, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Convert the plan and its derived values to JSON types."""
        figures = ("workers", "skew_before", "skew_after", "idle_fraction")
        return {
            "name": "repartition_plan",
            **{field.name: getattr(self, field.name) for field in fields(self)},
            **{name: getattr(self, name) for name in figures},
            "source_counts": list(self.source_counts),
            "target_counts": list(self.target_counts),
            "groups": list(self.groups),
        }

    def __str__(self) -> str:
        how = {
            "unchanged": "unchanged",
            "grouped": "whole partitions assigned to workers, no shuffle",
            "shuffled": f"strategy {self.strategy}, one shuffle",
        }[self.action]
        return (
            f"Repartition plan ({self.mode}): {how}. {self.rows_moved:,} of "
            f"{sum(self.source_counts):,} examples change partition.\n"
            f"Fullest partition over mean: {self.skew_before:.2f} before, "
            f"{self.skew_after:.2f} after; workers idle {self.idle_fraction:.1%} of the time.\n"
            f"{self._table}"
        )

    @property
    def _table(self) -> str:
        """The first and the last partitions, with their rows before and after."""
        sides, total = (self.source_counts, self.target_counts), f"{sum(self.source_counts):,}"
        last, most = max(map(len, sides)), _MOST_SHOWN // 2
        rows: list[tuple[str, ...]] = [("partition", "rows before", "rows after")]
        for partition in (*range(min(last, most)), *range(max(most, last - most), last)):
            cells = (f"{each[partition]:,}" if partition < len(each) else "-" for each in sides)
            rows.append((f"{partition}", *cells))
        return "\n".join(aligned([*rows, ("total", total, total)]))


def plan_repartition(
    counts: Sequence[int],
    *,
    workers: int,
    mode: RepartitionMode = "always",
    strategy: RepartitionStrategy = "balanced",
    seed: int = 0,
) -> RepartitionPlan:
    """Plan a repartition to one partition per worker.

    Mode "never" splits no partition: more partitions than workers are grouped whole, as evenly as
    possible (`group_partitions`); with fewer partitions, the last workers get none. Mode
    "num_partitions_workers_differs" does not change data with as many partitions as workers,
    even if they are uneven. Mode "always" applies the strategy. The strategies other than
    `spark_default` do not change balanced data, whose sizes differ by at most one.

    Deterministic: equal arguments give equal plans on any machine.

    Args:
        counts: examples in each partition, in order; may be empty or all 0.
        workers: number of target partitions, one per worker.
        mode: when to repartition.
        strategy: how.
        seed: determines the first target of each partition in `spark_default`; unused otherwise.

    Returns:
        The plan, with exactly `workers` target partitions.

    Raises:
        ConfigurationError: if `workers` is below 1, or mode or strategy is unknown.
        DataError: if a count is negative.

    Example:
        >>> plan = plan_repartition([7, 0, 0], workers=3)
        >>> plan.target_counts, plan.rows_moved
        ((3, 2, 2), 4)
        >>> plan.placement().destinations(0, 0, 7)
        array([0, 0, 0, 1, 1, 2, 2], dtype=int32)
    """
    _check(counts, workers, mode, strategy)
    source = tuple(int(count) for count in counts)
    same_number = len(source) == workers

    def plan(
        action: RepartitionAction, placement: Placement, groups: tuple[int, ...] = ()
    ) -> RepartitionPlan:
        target_counts, rows_moved = placement.tally()
        return RepartitionPlan(
            mode=mode,
            strategy=strategy,
            seed=seed,
            action=action,
            source_counts=source,
            target_counts=tuple(target_counts.tolist()),
            groups=groups,
            rows_moved=rows_moved,
        )

    def grouped(groups: tuple[int, ...]) -> RepartitionPlan:
        return plan("grouped", Grouped(source, workers, groups), groups)

    unchanged = Grouped(source, workers, tuple(range(len(source))))
    is_balanced = same_number and strategy != "spark_default" and max(source) - min(source) <= 1
    if is_balanced or (same_number and mode != "always"):
        return plan("unchanged", unchanged)
    if mode == "never":
        return grouped(group_partitions(source, workers))
    shuffled = plan("shuffled", _placement(strategy, source, workers, seed))
    if shuffled.rows_moved > 0:
        return shuffled
    # Only empty partitions are added or removed: no shuffle needed.
    if same_number:
        return plan("unchanged", unchanged)
    return grouped(tuple(partition % workers for partition in range(len(source))))


def _placement(
    strategy: RepartitionStrategy, counts: tuple[int, ...], workers: int, seed: int
) -> Placement:
    match strategy:
        case "balanced":
            return Balanced(counts, workers)
        case "approximate_balanced":
            return ApproximateBalanced(counts, workers)
        case "spark_default":
            return SparkDefault(counts, workers, seed)


def _max_over_mean(counts: tuple[int, ...]) -> float:
    total = sum(counts)
    return max(counts) * len(counts) / total if total else 1.0


def _check(counts: Sequence[int], workers: int, mode: str, strategy: str) -> None:
    check_count("workers", workers)
    check_choice("mode", mode, get_args(RepartitionMode))
    check_choice("strategy", strategy, get_args(RepartitionStrategy))
    for partition, count in enumerate(counts):
        if count < 0:
            raise DataError(
                "a partition cannot hold fewer than 0 examples. "
                f"Received: counts[{partition}]={count}."
            )
