"""How a network was trained, in a few numbers, to be kept with it."""

from typing import Any

import numpy as np

from sparkwright.masters import TrainingMaster
from sparkwright.runs import TrainingRun


def training_summary(master: TrainingMaster | None, run: TrainingRun | None) -> dict[str, Any]:
    """JSON-able: the master's settings, and of the last run what it did.

    Args:
        master: how to train; None: nothing is known of it.
        run: the last one; None: there was none since the network was made or loaded.

    Returns:
        "master" (settings by name), "run" (its id), "state", "epochs", "examples", "averagings",
        "seconds", "loss" (mean over the examples of the last epoch, as trained), "validation_loss"
        (the last one); each only if known.
    """
    found: dict[str, Any] = {} if master is None else {"master": master.to_dict()}
    if run is None:
        return found
    status, rows = run.status, run.log.rows()
    found |= {
        "run": run.id,
        "state": status.state,
        "epochs": status.epoch,
        "examples": int(rows["examples"].sum()),
        "averagings": status.averagings,
        "seconds": round(status.elapsed_s, 3),
        "loss": _last_loss(rows),
    }
    if status.validation:
        found["validation_loss"] = float(status.validation[-1].loss)
    return found


def _last_loss(rows: dict[str, Any]) -> float | None:
    known = np.isfinite(rows["loss"])
    if not known.any():
        return None
    last = known & (rows["epoch"] == rows["epoch"][known].max())
    return float(np.average(rows["loss"][last], weights=rows["examples"][last]))
