"""Advice from known sizes and times; pure."""

from collections.abc import Sequence

from sparkwright.errors import ConfigurationError
from sparkwright.masters import ParameterAveragingTrainingMaster, ScalingCosts, TrainingMaster
from sparkwright.options import check_count, check_number

from ._advice import Advice
from ._alternatives import alternatives_to
from ._load import Load
from ._memory import MemoryPlan
from ._tables import MeasuredRun

_ALIKE = 0.01  # smaller differences in efficiency do not count: the safer setting is preferred
_MOST_WORKERS = 1_000_000


def predict(
    master: TrainingMaster | None = None,
    *,
    rows: Sequence[int] | None = None,
    workers: int | None = None,
    step_s: float | None = None,
    vector_bytes: int | None = None,
    updater_bytes: int = 0,
    costs: ScalingCosts | None = None,
    target: float = 0.9,
    memory: MemoryPlan | None = None,
    runs: Sequence[MeasuredRun] = (),
    sources: Sequence[str] = (),
) -> Advice:
    """Give advice from known sizes and times; `advise` also measures them.

    Args:
        master: the training master; default None: parameter averaging.
        rows: examples of each worker; default None: unknown.
        workers: number of workers; required without `rows`.
        step_s: seconds of one minibatch on one worker; default None: unknown.
        vector_bytes: size of all averaged values as float32, including the parameters; None:
            unknown.
        updater_bytes: size of the optimizer's state, used if a master averages it. Default 0.
        costs: constants of the prediction, such as the bandwidth; default None: measured constants
            and 10 Gbit/s.
        target: the efficiency to reach, from 0 to 1; default 0.9.
        memory: the memory of executors and driver.
        runs: measured trainings.
        sources: measured and assumed values, shown with the advice.

    Raises:
        ConfigurationError: if the number of workers is unknown or an argument is invalid.

    Example:
        >>> from sparkwright.masters import ScalingCosts
        >>> found = predict(
        ...     workers=8, step_s=0.1, vector_bytes=2_000_000, updater_bytes=4_000_000,
        ...     costs=ScalingCosts().with_network(1.25e8),
        ... )
        >>> found.best.settings, round(found.best.efficiency, 2), round(found.speed_up, 1)
        ('updater="local"', 0.94, 6.8)
    """
    if rows is None:
        if workers is None:
            raise ConfigurationError(
                "`rows` or `workers` must give the number of workers. Received: neither."
            )
        check_count("workers", workers, maximum=_MOST_WORKERS)
    elif not rows:
        raise ConfigurationError("`rows` must have an entry per worker. Received: rows=[].")
    check_number("target", target, above=0, maximum=1)
    given = master or ParameterAveragingTrainingMaster()
    load = Load(
        step_s=step_s,
        vector_bytes=vector_bytes,
        updater_bytes=updater_bytes,
        costs=costs or ScalingCosts(),
    )
    one_round = [load.minibatches(given) * given.batch_size_per_worker] * (workers or 1)
    plan = given.plan(one_round if rows is None else rows)
    found = tuple(alternatives_to(given, plan.workers, load)) if load.is_known else ()
    most = max((each.efficiency for each in found), default=0)
    enough = target if most >= target else (1 - _ALIKE) * most
    return Advice(
        given=given,
        plan=plan,
        rows_known=rows is not None,
        load=load,
        target=target,
        alternatives=found,
        # The first, and so the safest, of those that are efficient enough.
        recommended=next((n for n, each in enumerate(found) if each.efficiency >= enough), 0),
        memory=memory,
        runs=tuple(runs),
        sources=tuple(sources),
    )
