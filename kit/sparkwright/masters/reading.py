"""Read the settings of a training master, its own and those in Keras HDF5 files."""

from collections.abc import Collection, Mapping
from typing import Any

from sparkwright._yaml import read_json, read_yaml
from sparkwright.errors import ConfigurationError
from sparkwright.nested_options import checked_dict
from sparkwright.options import check_choice, check_count, check_flag, check_positive
from sparkwright.updates import FixedThreshold

from ._shared_training import SharedTrainingMaster
from .parameter_averaging import ParameterAveragingTrainingMaster
from .training_master import TrainingMaster

MASTERS: dict[str, type[TrainingMaster]] = {
    kind.__name__: kind for kind in (ParameterAveragingTrainingMaster, SharedTrainingMaster)
}


_MODES = ("synchronous", "asynchronous")
_DEFAULT_THRESHOLD = 1e-3
_AUTOMATIC = -1
# Settings without an equivalent: of Elephas' parameter server and of Deeplearning4j's former
# adaptive threshold.
_UNUSED = {
    *("parameter_server_mode", "frequency", "port", "custom_objects", "elephas_optimizer"),
    *("shake_frequency", "min_threshold", "threshold_step", "step_trigger", "step_delay"),
}
_KNOWN = {
    *("mode", "num_workers", "batch_size", "averaging_frequency", "num_batches_prefetch"),
    *("collect_stats", "update_threshold", "workers_per_node"),
    *_UNUSED,
}


def training_master_from_dict(
    settings: dict[str, Any], *, allow: Collection[str] = ()
) -> TrainingMaster:
    """Create a training master from the output of `to_dict`.

    Args:
        settings: options by name, and as "name" the class; without it
            ParameterAveragingTrainingMaster.
        allow: classes of your own that may be imported, as "package.module.Class"; default none.

    Raises:
        ConfigurationError: if the class or an option is unknown, or a value is invalid.

    Example:
        >>> master = training_master_from_dict({"name": "SharedTrainingMaster", "workers": 4})
        >>> type(master).__name__, master.workers
        ('SharedTrainingMaster', 4)
    """
    name = checked_dict(settings).get("name", ParameterAveragingTrainingMaster.__name__)
    check_choice("name", name, MASTERS)
    return MASTERS[name].from_dict(settings, allow=allow)


def training_master_from_json(text: str, *, allow: Collection[str] = ()) -> TrainingMaster:
    """Create a training master from the output of `to_json`; see `training_master_from_dict`."""
    return training_master_from_dict(read_json(text), allow=allow)


def training_master_from_yaml(text: str, *, allow: Collection[str] = ()) -> TrainingMaster:
    """Create a training master from the output of `to_yaml`; see `training_master_from_dict`."""
    return training_master_from_dict(read_yaml(text), allow=allow)


def master_from_distributed_config(distributed: Mapping[str, Any]) -> TrainingMaster:
    """Create a training master from a `distributed_config` attribute.

    | key of `config` | option | if it is missing |
    | --- | --- | --- |
    | mode | "synchronous": averaging, "asynchronous": sharing | error |
    | num_workers | `workers`; null: the master's default | the master's default |
    | batch_size | `batch_size_per_worker` | error |
    | averaging_frequency | the same, of averaging | 5 |
    | num_batches_prefetch | `prefetch_batches` | 0 |
    | collect_stats | `collect_training_stats` | false |
    | update_threshold | `threshold`, fixed, of sharing | 1e-3 |
    | workers_per_node | the same, of sharing; then num_workers does not count; -1: automatic | -1 |

    Keys of Elephas' parameter server, of Deeplearning4j's old threshold and of the other mode are
    accepted and ignored.

    Args:
        distributed: {"config": {…}}, untrusted content of a file.

    Raises:
        ConfigurationError: if a key is unknown or a value invalid; names both.

    Example:
        >>> config = {"mode": "asynchronous", "num_workers": 2, "batch_size": 32}
        >>> master_from_distributed_config({"config": config}).threshold
        FixedThreshold(threshold=0.001)
    """
    config = distributed.get("config")
    if not isinstance(config, Mapping):
        raise ConfigurationError(f"`config` must be a dict. Received: config={config!r:.80}.")
    for name in ("mode", "batch_size"):
        if name not in config:
            raise ConfigurationError(f"`{name}` is required. Received: {sorted(config)}.")
    for name in sorted(map(str, set(config) - _KNOWN)):
        raise ConfigurationError(
            f"keys must be among {sorted(_KNOWN)}. Received: {name}={config.get(name)!r:.80}."
        )
    _check(config)
    common: dict[str, Any] = {
        "batch_size_per_worker": config["batch_size"],
        "prefetch_batches": config.get("num_batches_prefetch", 0),
        "collect_training_stats": config.get("collect_stats", False),
    }
    workers: int | None = config.get("num_workers")
    if config["mode"] == "synchronous":
        return ParameterAveragingTrainingMaster(
            workers=workers, averaging_frequency=config.get("averaging_frequency", 5), **common
        )
    per_node: int = config.get("workers_per_node", _AUTOMATIC)
    return SharedTrainingMaster(
        workers=workers if per_node == _AUTOMATIC else None,
        workers_per_node=None if per_node == _AUTOMATIC else per_node,
        threshold=FixedThreshold(threshold=config.get("update_threshold", _DEFAULT_THRESHOLD)),
        **common,
    )


def _check(config: Mapping[str, Any]) -> None:
    """Raise for invalid values, with their names in the file."""
    check_choice("mode", config["mode"], _MODES)
    check_count("batch_size", config["batch_size"])
    check_count("num_workers", config.get("num_workers"), optional=True)
    check_count("averaging_frequency", config.get("averaging_frequency", 5))
    check_count("num_batches_prefetch", config.get("num_batches_prefetch", 0), minimum=0)
    check_flag("collect_stats", config.get("collect_stats", False))
    if config.get("workers_per_node", _AUTOMATIC) != _AUTOMATIC:
        check_count("workers_per_node", config["workers_per_node"])
    check_positive("update_threshold", config.get("update_threshold", _DEFAULT_THRESHOLD))
