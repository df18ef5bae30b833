"""Training metadata of a saved network: its training summary and its training master."""

from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.masters import TrainingMaster
from sparkwright.masters.reading import master_from_distributed_config
from sparkwright.runs import TrainingRun
from sparkwright.storage import load_model
from sparkwright.storage.model_reading import distributed_config


def load_distributed_model(
    url: str, *, custom_objects: dict[str, Any] | None = None, safe_mode: bool = True
) -> tuple[Any, TrainingMaster]:
    """Read a Keras HDF5 file with the attribute `distributed_config`.

    Args:
        url: URL or local path of the file.
        custom_objects: as for `load_model`.
        safe_mode: as for `load_model`.

    Returns:
        The keras.Model, and the training master that the attribute describes.

    Raises:
        OSError: if reading fails; names the URL.
        DataError: if the file is damaged, is not a model or has no `distributed_config`, or the
            attribute has an unknown key or an invalid value; names the URL, the key and the value.
    """
    master = distributed_master(url)
    if master is None:
        raise DataError(
            "the file must be Keras HDF5 with the attribute `distributed_config`. Received: "
            f"{url}, which has none. Load the model with `load_model`."
        )
    return load_model(url, custom_objects=custom_objects, safe_mode=safe_mode), master


def distributed_master(url: str) -> TrainingMaster | None:
    """Return the training master stored in a model file; None if there is none."""
    distributed = distributed_config(url)
    if distributed is None:
        return None
    try:
        return master_from_distributed_config(distributed)
    except ConfigurationError as error:
        raise DataError(
            f"`distributed_config` of {url} is not a valid training master: {error}"
        ) from None


def training_summary(master: TrainingMaster | None, run: TrainingRun | None) -> dict[str, Any]:
    """Return JSON-serializable settings of the master, and a summary of the last run."""
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
        "loss": _last_loss(rows),  # mean over the examples of the last epoch, as trained
    }
    if run.thresholds:
        found["thresholds"] = list(run.thresholds)
    if status.validation:
        found["validation_loss"] = float(status.validation[-1].loss)
    return found


def _last_loss(rows: dict[str, Any]) -> float | None:
    known = np.isfinite(rows["loss"])
    if not known.any():
        return None
    last = known & (rows["epoch"] == rows["epoch"][known].max())
    return float(np.average(rows["loss"][last], weights=rows["examples"][last]))
