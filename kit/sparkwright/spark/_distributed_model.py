"""Models with their training master, as Deeplearning4j and Elephas keep them in Keras HDF5."""

from typing import Any

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.masters import TrainingMaster
from sparkwright.masters._distributed_config import master_from_distributed_config
from sparkwright.storage import load_model
from sparkwright.storage._model_reading import distributed_config


def load_distributed_model(
    url: str, *, custom_objects: dict[str, Any] | None = None, safe_mode: bool = True
) -> tuple[Any, TrainingMaster]:
    """Read a Keras HDF5 file with the attribute `distributed_config`.

    Args:
        url: where from. A local path counts as a URL.
        custom_objects: as for `load_model`.
        safe_mode: as for `load_model`.

    Returns:
        The keras.Model, and the training master that the attribute describes.

    Raises:
        OSError: whatever the store says, naming the URL.
        DataError: if the file is damaged or no model, has no such attribute, or an unknown key or a
            value there that cannot be; names the URL, the key and the value.
    """
    master = distributed_master(url)
    if master is None:
        raise DataError(
            "the file must be Keras HDF5 with the attribute `distributed_config`. Received: "
            f"{url}, which has none. Read the model alone with `load_model`."
        )
    return load_model(url, custom_objects=custom_objects, safe_mode=safe_mode), master


def distributed_master(url: str) -> TrainingMaster | None:
    """The training master that a model's file describes; None for a file without one.

    Raises:
        What `load_distributed_model` raises.
    """
    distributed = distributed_config(url)
    if distributed is None:
        return None
    try:
        return master_from_distributed_config(distributed)
    except ConfigurationError as error:
        raise DataError(
            f"`distributed_config` of {url} describes no training master: {error}"
        ) from None
