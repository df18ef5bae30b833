"""Reads the settings of a training master of whichever kind."""

from typing import Any

from sparkwright._yaml import read_json, read_yaml
from sparkwright.configuration import checked_dict
from sparkwright.errors import ConfigurationError

from ._parameter_averaging import ParameterAveragingTrainingMaster
from ._shared_training import SharedTrainingMaster
from ._training_master import TrainingMaster

MASTERS: dict[str, type[TrainingMaster]] = {
    kind.__name__: kind for kind in (ParameterAveragingTrainingMaster, SharedTrainingMaster)
}


def training_master_from_dict(settings: dict[str, Any]) -> TrainingMaster:
    """The training master whose `to_dict` gave `settings`.

    Args:
        settings: options by name, and as "name" the class; without it
            ParameterAveragingTrainingMaster.

    Raises:
        ConfigurationError: if the class or an option is unknown or an option has a value that it
            cannot have.

    Example:
        >>> master = training_master_from_dict({"name": "SharedTrainingMaster", "workers": 4})
        >>> type(master).__name__, master.workers
        ('SharedTrainingMaster', 4)
    """
    name = checked_dict(settings).get("name", ParameterAveragingTrainingMaster.__name__)
    if name not in list(MASTERS):
        raise ConfigurationError(
            f"`name` must be one of {', '.join(map(repr, MASTERS))}. Received: name={name!r}."
        )
    return MASTERS[name].from_dict(settings)


def training_master_from_json(text: str) -> TrainingMaster:
    """The training master whose `to_json` gave `text`; see `training_master_from_dict`."""
    return training_master_from_dict(read_json(text))


def training_master_from_yaml(text: str) -> TrainingMaster:
    """The training master whose `to_yaml` gave `text`; see `training_master_from_dict`."""
    return training_master_from_dict(read_yaml(text))
