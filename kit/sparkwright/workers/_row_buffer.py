"""Buffer for the rows of a worker's log."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._control import ControlLine
from ._minibatches import RoundDone
from ._usage import UsageMeter

_SEND_EVERY_S = 0.1


class RowBuffer:
    """Collects the log rows of averaged rounds; lost rounds are not logged."""

    def __init__(self, control: ControlLine, usage: UsageMeter | None = None) -> None:
        self._control, self._usage = control, usage
        self._blocks: list[dict[str, Any]] = []
        self._losses: list[NDArray[np.float32]] = []
        self._examples: list[NDArray[np.int32]] = []
        self._columns: dict[str, list[NDArray[np.float32]]] = {}
        self._sent_s = 0.0

    def add(
        self,
        done: RoundDone,
        *,
        epoch: int,  # from 1
        round: int,  # from 1
        seconds: float,
        averagings: int | None = None,  # of the run so far, including theirs
        columns: dict[str, NDArray[np.float32]] | None = None,  # the same ones each time
    ) -> None:
        self._blocks.append(
            {
                "epoch": epoch,
                "round": round,
                "count": len(done.losses),
                "ended_s": time.monotonic(),
                "seconds": seconds,
                "metrics": done.metrics,
                "readings": done.readings | self._usage_now(done),
                **({} if averagings is None else {"averagings": averagings}),
            }
        )
        self._losses.append(done.losses)
        self._examples.append(done.examples)
        for name, values in (columns or {}).items():
            self._columns.setdefault(name, []).append(values)
        # Send the first round without delay, so that the first loss is shown early.
        if self._sent_s == 0.0 or time.monotonic() - self._sent_s >= _SEND_EVERY_S:
            self.flush()

    def _usage_now(self, done: RoundDone) -> dict[str, float]:
        return {} if self._usage is None or not len(done.losses) else self._usage.readings()

    def flush(self) -> None:
        if not self._blocks:
            return
        now_s = time.monotonic()
        for block in self._blocks:
            # Ages instead of times, because the driver's clock may differ.
            block["age_s"] = now_s - block.pop("ended_s")
        parts = [self._losses, self._examples, *self._columns.values()]
        self._control.send(
            "rows",
            {"blocks": self._blocks, "columns": list(self._columns)},
            tuple(np.concatenate(part) for part in parts),
        )
        self._blocks, self._losses, self._examples, self._columns = [], [], [], {}
        self._sent_s = now_s
