"""Answers of tasks with `communication="spark"`: the sum of a round, the scores of an epoch."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkwright.runs.outcome import error_of
from sparkwright.workers.protocol import Failure
from sparkwright.workers.requests import Answer, ValidateRequest

from ._tasks import validation_task
from .gpus import on_gpus

if TYPE_CHECKING:
    from sparkwright.runs.timeline_record import Process
    from sparkwright.timeline.clocks import ClockState
    from sparkwright.timeline.spans import SpanBlock

RunJob = Callable[[Callable[[], Any], str], Any]


def validated(
    elements: Any, template: ValidateRequest, state: Any, run_job: RunJob, *, epoch: int
) -> tuple[float, dict[str, float]] | None:
    """Return mean loss and metrics of all validation examples; None if there are none."""

    def answers(template: ValidateRequest, *, only: int | None = None) -> list[Answer]:
        task = validation_task(template, state, only=only)
        found = on_gpus(elements.mapPartitionsWithIndex(task))
        given: list[Answer] = run_job(found.collect, f"validate {template.run}, epoch {epoch}")
        for answer in given:
            if (failure := answer.failure(worker=-1)) is not None:
                raise error_of(failure)
        return given

    found = answers(template)
    if not found:
        return None
    sums = np.sum([np.frombuffer(answer.payload) for answer in found], axis=0)
    metrics: dict[str, float] = found[0].fields["metrics"]
    # Keras computes metrics from the sums of all workers, so a second job asks one of them.
    if len(found) > 1 and metrics:
        total = replace(template, sums=tuple(sums.tolist()))
        (answer,) = answers(total, only=found[0].fields["worker"])
        metrics = answer.fields["metrics"]
    return float(sums[0] / sums[1]), metrics


class RoundSum(NamedTuple):
    """The aggregate of a round: the sum of n_w x_w, and the reports of the workers."""

    vector: Any = 0.0
    fields: tuple[dict[str, Any], ...] = ()
    failures: tuple[Failure, ...] = ()
    counters: tuple[bytes, ...] = ()
    spans: "tuple[tuple[int, Process, SpanBlock, ClockState], ...]" = ()

    @staticmethod
    def add(dtype: Any) -> Any:
        """Return a function that adds one worker's answer to the aggregate."""

        def add(total: "RoundSum | None", answer: Any) -> "RoundSum | None":
            if (failure := answer.failure(worker=-1)) is not None:
                found = RoundSum(failures=(failure,))
            else:
                fields, cut = answer.fields, answer.fields["vector_bytes"]
                raw, counters = answer.payload[:cut], answer.payload[cut:]
                place, count = (
                    fields["place"],
                    fields["weight"],
                )  # 0 if the parameters are not finite
                process = place["host"], place["pid"]
                found = RoundSum(
                    vector=np.frombuffer(raw, dtype) * dtype.type(count) if count else 0.0,
                    fields=(fields,),
                    counters=(counters,) if counters else (),
                    spans=((fields["worker"], process, *answer.result),)
                    if answer.result is not None
                    else (),
                )
            return RoundSum.merge(total, found)

        return add

    @staticmethod
    def merge(one: "RoundSum | None", other: "RoundSum | None") -> "RoundSum | None":
        """Combine two aggregates; None is the empty aggregate."""
        if one is None or other is None:
            return other if one is None else one
        pairs: Any = zip(one, other, strict=True)
        return RoundSum(*(mine + theirs for mine, theirs in pairs))
