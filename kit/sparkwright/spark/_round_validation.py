"""Validation of a run with `communication="spark"`: a Spark job after each epoch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sparkwright.runs.outcome import error_of
from sparkwright.workers.requests import Answer, ValidateRequest

from ._tasks import validation_task
from .gpus import on_gpus

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
