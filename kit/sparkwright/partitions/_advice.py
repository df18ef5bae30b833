"""Compare repartitions and give advice in sentences; pure."""

from collections.abc import Sequence
from typing import Any, get_args

from ._plan import RepartitionMode, RepartitionStrategy
from .forecasting import PartitionForecast, forecast
from .survey import PartitionSurvey

# A gain below this share of an epoch is not worth moving data.
_WORTH = 0.02


def compare_repartitions(
    survey: PartitionSurvey, *, workers: int, **options: Any
) -> tuple[PartitionForecast, ...]:
    """Return a forecast for each mode and strategy.

    Mode "never" has one forecast, because it ignores the strategy.

    Args:
        survey: rows and labels of the partitions.
        workers: number of workers.
        options: `batch_size`, `seed`, `kind`, `step_s` of `forecast`.

    Example:
        >>> found = compare_repartitions(PartitionSurvey(rows=(90, 10)), workers=2, batch_size=10)
        >>> [each.minibatches_after for each in found][:3]
        [9, 9, 9]
        >>> recommended(found).plan.mode
        'always'
    """
    modes: list[RepartitionMode] = ["never", "num_partitions_workers_differs", "always"]
    strategies: tuple[RepartitionStrategy, ...] = get_args(RepartitionStrategy)
    return tuple(
        forecast(survey, workers=workers, mode=mode, strategy=strategy, **options)
        for mode in modes
        for strategy in (strategies[:1] if mode == "never" else strategies)
    )


def recommended(forecasts: Sequence[PartitionForecast]) -> PartitionForecast:
    """Return the best forecast: mixed labels first, then short epochs, then few moved rows.

    Args:
        forecasts: result of `compare_repartitions`.
    """
    shortest = min(each.minibatches_after for each in forecasts)
    bound = shortest * (1 + _WORTH)
    uneven = all(each.has_uneven_labels for each in forecasts)

    def cost(each: PartitionForecast) -> tuple[bool, bool, int, bool]:
        return (
            each.has_uneven_labels and not uneven,
            each.minibatches_after > bound,
            each.rows_moved,
            each.plan.mode != "always",  # the default among equal ones
        )

    return min(forecasts, key=cost)


def advice_on(chosen: PartitionForecast, forecasts: Sequence[PartitionForecast]) -> list[str]:
    """Return sentences about a choice, the most important first.

    Args:
        chosen: the selected forecast.
        forecasts: result of `compare_repartitions` with the same options.
    """
    if not chosen.survey.total:
        return ["There are no rows to train."]
    found = [_verdict(chosen), _better(chosen, forecasts), _labels(chosen), *_remarks(chosen)]
    return [sentence for sentence in found if sentence]


def _verdict(chosen: PartitionForecast) -> str:
    saved, moved = chosen.minibatches_saved, chosen.rows_moved
    if chosen.plan.action != "shuffled":
        how = {
            "unchanged": "stays as it is",
            "grouped": "is only grouped into whole partitions per worker",
        }
        return (
            f"Nothing moves: the data {how[chosen.plan.action]}. Workers wait "
            f"{chosen.idle_after:.0%} of the time."
        )
    cost = f"{moved:,} of {chosen.survey.total:,} rows move once"
    if saved <= 0:
        return f"{cost}, and epochs become no shorter."
    share = saved / chosen.minibatches_without
    gain = f"each epoch takes {saved:,} fewer minibatches ({share:.0%})"
    pays = chosen.epochs_to_pay_off
    if pays is None:
        return f"{cost}; {gain}."
    if pays <= 1:
        return f"{cost}; {gain}. That pays off within the first epoch."
    return f"{cost}; {gain}. That pays off after about {pays:.0f} epochs."


def _better(chosen: PartitionForecast, forecasts: Sequence[PartitionForecast]) -> str:
    if not forecasts:
        return ""
    best = recommended(forecasts)
    name = f'mode "{best.plan.mode}"'
    if best.plan.mode != "never":
        name += f' with strategy "{best.plan.strategy}"'
    if chosen.has_uneven_labels and not best.has_uneven_labels:
        return f"Better: {name}, which mixes the labels."
    if chosen.minibatches_after > best.minibatches_after * (1 + _WORTH):
        return (
            f"Better: {name}, with {best.minibatches_after:,} minibatches an epoch in place of "
            f"{chosen.minibatches_after:,}."
        )
    if chosen.rows_moved > best.rows_moved and not best.has_uneven_labels:
        less = "no rows" if not best.rows_moved else f"only {best.rows_moved:,} rows"
        return f"Cheaper, for epochs about as short: {name} moves {less}."
    return ""


def _labels(chosen: PartitionForecast) -> str:
    if not chosen.has_uneven_labels:
        return ""
    worst = int(chosen.after.label_distances.argmax())
    return (
        f"Labels are uneven: the class distribution of worker {worst} differs from that of all "
        f"data by {chosen.after.label_skew:.0%}. This slows the learning of averaged networks. Mix "
        "the rows first: data.shuffle(seed=…)."
    )


def _remarks(chosen: PartitionForecast) -> list[str]:
    remarks: list[str] = []
    empty, workers = chosen.after.empty, chosen.plan.workers
    if empty:
        who = f"{empty} of {workers} workers get" if empty > 1 else f"1 of {workers} workers gets"
        remarks.append(f"{who} no rows: use fewer workers, or a mode that splits partitions.")
    ragged = [n for n in chosen.after.ragged(chosen.batch_size) if n]
    smallest = min(ragged, default=chosen.batch_size)
    if smallest * 4 <= chosen.batch_size:
        remarks.append(
            f"The last minibatch of a worker has only {smallest} of {chosen.batch_size} rows, and "
            "counts as much as a full one."
        )
    return remarks
