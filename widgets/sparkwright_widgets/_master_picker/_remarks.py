"""Problems of a plan, and settings that solve them. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

from sparkwright.advice import Advice
from sparkwright.errors import ConfigurationError
from sparkwright.masters import TrainingMaster
from sparkwright_widgets._format import count_text, counted

_ROUNDS = 10  # per epoch, suggested if there is only one


class Remedy(NamedTuple):
    """A button label and the settings that the button applies."""

    label: str
    master: TrainingMaster


class Remark(NamedTuple):
    """A problem of a plan, and labels and options of changes that may solve it."""

    key: str  # identifies the problem
    sentence: str
    settings: tuple[tuple[str, dict[str, Any]], ...] = ()


_BALANCED = (
    "Repartition: balanced",
    {"repartition": "always", "repartition_strategy": "balanced"},
)


def remedies(
    remark: Remark, master: TrainingMaster, expect: Callable[[TrainingMaster], list[Remark]]
) -> tuple[Remedy, ...]:
    """The settings that remove the remark; `expect` returns the remarks on other settings."""
    offered: list[Remedy] = []
    names = {field.name for field in fields(master)}
    for label, options in remark.settings:
        try:
            changed = replace(master, **{k: v for k, v in options.items() if k in names})
            left = [other.key for other in expect(changed)]
        except ConfigurationError:
            continue
        if remark.key not in left:
            offered.append(Remedy(label, changed))
    return tuple(offered)


def remarks_on(found: Advice, slots: int | None, cores: int | None) -> Iterator[Remark]:
    """Yield remarks on a plan for Spark with `slots`, or for one machine with `cores`."""
    plan = found.plan
    if slots is not None and found.workers > slots:
        yield Remark(
            "slots",
            f"Spark has {counted(slots, 'task slot')}, fewer than the {count_text(found.workers)} "
            "workers. The run would not start. Use more executors, or fewer workers.",
            (_fewer(slots),) if slots else (),
        )
    if cores is not None and found.workers > cores:
        yield Remark(
            "cores",
            f"{count_text(found.workers)} workers share the {counted(cores, 'core')} of this "
            "machine, so each is slower than the figures show.",
            (_fewer(cores),),
        )
    if not found.rows_known:
        return
    idle = len(plan.idle_workers)
    if idle:
        busy = found.workers - idle
        yield Remark(
            "idle",
            f"{counted(idle, 'worker has', 'workers have')} no data. Repartition it, or use "
            "fewer workers.",
            (_BALANCED, *([_fewer(busy)] if busy else [])),
        )
    elif plan.idle_fraction >= 0.1:
        share = f"{100 * plan.idle_fraction:.0f} %"
        yield Remark(
            "waiting",
            f"Workers wait {share} of the time for the worker with the most data.",
            (_BALANCED,),
        )
    short = found.short_batches
    if short:
        yield Remark(
            "short",
            f"The last minibatch of {counted(len(short), 'worker')} is smaller: "
            f"{counted(min(short), 'example')}{' at least,' if len(set(short)) > 1 else ''} "
            f"instead of {count_text(plan.batch_size)}.",
        )
    if plan.kind == "averaging" and found.exchanges == 1 and found.workers > 1:
        every = max(1, max(plan.minibatches) // _ROUNDS)
        label = f"Average after {counted(every, 'minibatch', 'minibatches')}"
        yield Remark(
            "once",
            "Workers average only once per epoch. Average more often.",
            ((label, {"averaging_frequency": every}),),
        )


def _fewer(workers: int) -> tuple[str, dict[str, Any]]:
    label = f"Use {counted(workers, 'worker')}"
    return label, {"workers": workers, "workers_per_node": None}
