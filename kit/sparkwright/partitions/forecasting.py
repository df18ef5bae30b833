"""Forecast cost and benefit of a repartition before data moves; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.options import check_count

from ._plan import RepartitionMode, RepartitionPlan, RepartitionStrategy, plan_repartition
from .survey import PartitionSurvey

TrainingKind = Literal["averaging", "sharing"]
LabelForecast = Literal["none", "exact", "expected", "estimated"]
# Assumed shuffle bandwidth of a worker.
BANDWIDTH_BYTES_PER_S = 50e6
# Sampled rows of a partition for which targets are computed if label positions are unknown.
_DRAWN = 1 << 16
# Smaller differences between class distributions do not affect training.
_NOTABLE = 0.1


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PartitionLayout:
    """Rows and labels of partitions.

    Attributes:
        rows: of each partition.
        labels: (partitions, classes) float64 number of labels of each class; no columns: unknown.
    """

    rows: tuple[int, ...]
    labels: NDArray[np.float64]

    @property
    def skew(self) -> float:
        """Size of the largest partition divided by the mean; 1 is even."""
        total = sum(self.rows)
        return max(self.rows) * len(self.rows) / total if total else 1.0

    @property
    def empty(self) -> int:
        """Partitions without rows."""
        return sum(n == 0 for n in self.rows)

    @property
    def label_distances(self) -> NDArray[np.float64]:
        """(partitions,) distance of each partition's class distribution from that of all data.

        The total variation distance, 0 to 1; 0 for partitions without labels.

        Example:
            >>> layout = PartitionLayout(rows=(4, 4), labels=np.array([[4.0, 0.0], [2.0, 2.0]]))
            >>> layout.label_distances.round(2).tolist(), layout.label_skew
            ([0.25, 0.25], 0.25)
        """
        sums = self.labels.sum(axis=1)
        whole = self.labels.sum(axis=0)
        if not whole.sum():
            return np.zeros(len(self.rows))
        shares = self.labels / np.maximum(sums, 1e-300)[:, None]
        distances = np.abs(shares - whole / whole.sum()).sum(axis=1) / 2
        return np.where(sums > 0, distances, 0.0)

    @property
    def label_skew(self) -> float:
        """The largest of `label_distances`."""
        return float(self.label_distances.max(initial=0.0))

    def chance_distances(self, seen: Sequence[float]) -> NDArray[np.float64]:
        """(partitions,) the expected distance if rows were drawn at random from all data.

        Args:
            seen: number of labels read in each partition; a few differ at random.
        """
        whole = self.labels.sum(axis=0)
        if not whole.sum():
            return np.zeros(len(self.rows))
        shares = whole / whole.sum()
        # Mean absolute deviation of a binomial share, p (1 - p) / n its variance; half their sum.
        spread = np.sqrt(shares * (1 - shares)).sum() / np.sqrt(2 * np.pi)
        return np.minimum(1.0, spread / np.sqrt(np.maximum(np.asarray(seen, np.float64), 1.0)))

    def minibatches(self, batch_size: int) -> tuple[int, ...]:
        """Minibatches of each partition in an epoch, including a smaller last one."""
        return tuple(-(-n // batch_size) for n in self.rows)

    def ragged(self, batch_size: int) -> tuple[int, ...]:
        """Rows of each partition's last minibatch if it is smaller, else 0."""
        return tuple(n % batch_size for n in self.rows)

    def slowest(self, batch_size: int, *, helps: bool = False) -> int:
        """Return the minibatches per epoch of the worker with the most of them.

        Args:
            batch_size: rows of a minibatch.
            helps: whether idle workers take over minibatches of other workers.
        """
        minibatches = self.minibatches(batch_size)
        if helps:
            return -(-sum(minibatches) // max(1, len(minibatches)))
        return max(minibatches, default=0)

    def idle_share(self, batch_size: int, *, helps: bool = False) -> float:
        """Return the fraction of the workers' time spent waiting for the last one, 0 to 1."""
        most = self.slowest(batch_size, helps=helps) * len(self.rows)
        return 1 - sum(self.minibatches(batch_size)) / most if most else 0.0


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class PartitionForecast:
    """Forecast of one repartition: before, after, cost and benefit.

    Attributes:
        survey: rows and labels of the partitions.
        plan: the planned repartition.
        kind: "averaging": workers wait for the last one. "sharing": idle workers fetch and train
            data of other workers.
        batch_size: rows of a worker's minibatch.
        step_s: seconds of a minibatch; None: unknown.
        now: the present partitions.
        without: the workers without splits (mode "never").
        after: the workers after `plan`.
        label_forecast: source of the labels of `after`. "exact": counted with positions;
            "expected": counted, assuming that each partition is shuffled; "estimated": from a
            sample of rows with positions; "none": unknown.
        seen: number of labels of each worker read for `after`.
    """

    survey: PartitionSurvey
    plan: RepartitionPlan
    kind: TrainingKind
    batch_size: int
    step_s: float | None
    now: PartitionLayout
    without: PartitionLayout
    after: PartitionLayout
    label_forecast: LabelForecast
    seen: tuple[float, ...]

    @property
    def idle_without(self) -> float:
        """Fraction of the workers' time spent waiting without splits."""
        return self.without.idle_share(self.batch_size, helps=self.kind == "sharing")

    @property
    def idle_after(self) -> float:
        """Fraction of the workers' time spent waiting after the repartition."""
        return self.after.idle_share(self.batch_size, helps=self.kind == "sharing")

    @property
    def minibatches_without(self) -> int:
        """Minibatches of an epoch without splits."""
        return self.without.slowest(self.batch_size, helps=self.kind == "sharing")

    @property
    def minibatches_after(self) -> int:
        """Minibatches of an epoch after the repartition."""
        return self.after.slowest(self.batch_size, helps=self.kind == "sharing")

    @property
    def minibatches_saved(self) -> int:
        """Minibatches saved per epoch; negative: longer epochs."""
        return self.minibatches_without - self.minibatches_after

    @property
    def seconds_saved(self) -> float | None:
        """Seconds saved per epoch; None without `step_s`."""
        return None if self.step_s is None else self.minibatches_saved * self.step_s

    @property
    def rows_moved(self) -> int:
        """Rows that change partition, once; 0 without a shuffle."""
        return self.plan.rows_moved if self.plan.action == "shuffled" else 0

    @property
    def bytes_moved(self) -> float | None:
        """Estimated bytes moved; None if sizes are unknown."""
        each = self.survey.bytes_per_row
        return None if each is None else self.rows_moved * each

    @property
    def move_s(self) -> float | None:
        """Estimated seconds of the move, all workers in parallel; None if sizes are unknown."""
        moved = self.bytes_moved
        return None if moved is None else moved / (BANDWIDTH_BYTES_PER_S * self.plan.workers)

    @property
    def epochs_to_pay_off(self) -> float | None:
        """Epochs until the saved time exceeds the time of the move; None: unknown or never."""
        saved, cost = self.seconds_saved, self.move_s
        return None if saved is None or cost is None or saved <= 0 else cost / saved

    @property
    def has_uneven_labels(self) -> bool:
        """Whether some worker's labels differ from the others' by clearly more than chance."""
        distances = self.after.label_distances
        chance = self.after.chance_distances(self.seen)
        return bool(((distances > _NOTABLE) & (distances > 2.5 * chance)).any())


def forecast(
    survey: PartitionSurvey,
    *,
    workers: int,
    mode: RepartitionMode = "always",
    strategy: RepartitionStrategy = "balanced",
    batch_size: int = 32,
    seed: int = 0,
    kind: TrainingKind = "averaging",
    step_s: float | None = None,
) -> PartitionForecast:
    """Say what training with these options would do with the data.

    Args:
        survey: rows and labels of the partitions.
        workers: how many there are.
        mode: when to repartition; see `plan_repartition`.
        strategy: how.
        batch_size: rows of a worker's minibatch; default 32.
        seed: of `spark_default`.
        kind: "averaging" (default) or "sharing": whether workers wait for each other or help.
        step_s: seconds of a minibatch; default None: unknown.

    Raises:
        ConfigurationError: if an option is invalid.

    Example:
        >>> found = forecast(PartitionSurvey(rows=(960, 64)), workers=2, batch_size=32)
        >>> found.minibatches_without, found.minibatches_after, found.rows_moved
        (30, 16, 448)
    """
    check_count("batch_size", batch_size)
    plan = plan_repartition(survey.rows, workers=workers, mode=mode, strategy=strategy, seed=seed)
    never = plan_repartition(survey.rows, workers=workers, mode="never")
    after, label_forecast, seen = _after(survey, plan)
    labels_now = survey.labels if survey.label_counts else np.zeros((len(survey.rows), 0))
    return PartitionForecast(
        survey=survey,
        plan=plan,
        kind=kind,
        batch_size=batch_size,
        step_s=step_s,
        now=PartitionLayout(rows=survey.rows, labels=labels_now),
        without=_after(survey, never)[0],
        after=after,
        label_forecast=label_forecast,
        seen=tuple(seen.tolist()),
    )


def _after(
    survey: PartitionSurvey, plan: RepartitionPlan
) -> tuple[PartitionLayout, LabelForecast, NDArray[np.float64]]:
    """Return rows and labels of each worker, the label forecast, and the number of labels read."""
    classes = len(survey.class_names)
    labels = np.zeros((plan.workers, classes))
    seen = np.zeros(plan.workers)
    if survey.label_basis == "none":
        return PartitionLayout(rows=plan.target_counts, labels=labels[:, :0]), "none", seen
    placement, now = plan.placement(), survey.labels
    splits = plan.action == "shuffled"
    for source, rows in enumerate(survey.rows):
        if not rows:
            continue
        if survey.samples and splits:
            sample = survey.samples[source]
            goes_to = placement.destinations_of(source, sample.numbers)
            looked_at = max(1, survey.rows_looked_at[source])
            np.add.at(labels, (goes_to, sample.classes), rows / looked_at)
            seen += np.bincount(goes_to, minlength=plan.workers)
            continue
        numbers = np.arange(rows, dtype=np.int64)
        if not splits:
            numbers = numbers[:1]
        elif rows > _DRAWN:
            # One row of each interval, at varying positions, so that no strategy correlates.
            starts = np.linspace(0, rows, _DRAWN, endpoint=False)
            shift = (np.arange(_DRAWN) * 0.6180339887498949) % 1.0
            numbers = (starts + shift * rows / _DRAWN).astype(np.int64)
        goes_to = placement.destinations_of(source, numbers)
        share = np.bincount(goes_to, minlength=plan.workers) / len(numbers)
        labels += share[:, None] * now[source]
        seen += share * sum(survey.label_counts[source])
    layout = PartitionLayout(rows=plan.target_counts, labels=labels)
    return layout, _known(survey, plan), seen


def _known(survey: PartitionSurvey, plan: RepartitionPlan) -> LabelForecast:
    if survey.label_basis == "sampled":
        return "estimated"
    mixed = plan.action == "shuffled" and not survey.samples
    alike = all(sum(n > 0 for n in line) <= 1 for line in survey.label_counts)
    if mixed and alike and max(survey.rows) <= _DRAWN:
        return "exact"  # targets are known, and rows of one class are interchangeable
    return "expected" if mixed else "exact"
