"""What a person should know about the objects inside a training master, and about their options."""

from typing import Any

from sparkwright._option import Option
from sparkwright.errors import ConfigurationError
from sparkwright.partitions import DefaultRepartitioner, NoRepartitioner
from sparkwright.updates import (
    AdaptiveThreshold,
    FixedThreshold,
    ResidualClipping,
    TargetSparsity,
)

from ._checkpointing import Checkpointing
from ._mesh_catalogue import MESH_OPTIONS
from ._mesh_config import MeshConfig
from ._nested_option import NestedOption
from ._parameter_averaging import ParameterAveragingTrainingMaster
from ._shared_training import SharedTrainingMaster
from ._time_source import NtpClock, SystemClock

CHECKPOINTS = "Checkpoints"
ADDRESSES = "Addresses and time-outs"
THRESHOLD = "What is sent"
CLIPPING = THRESHOLD
PIECES = "Data and partitions"
TIMES = "Failures and diagnostics"

# Powers of two: what the threshold of a message may be as a normal float32.
_SMALLEST, _LARGEST = 2.0**-126, 2.0**126
_DECAY = AdaptiveThreshold().decay


def _threshold(name: str, default: float, label: str, advice: str) -> Option:
    return Option(
        name=name,
        kind="float",
        default=default,
        minimum=_SMALLEST,
        maximum=_LARGEST,
        label=label,
        advice=advice,
    )


def _initial(default: float) -> Option:
    return _threshold(
        "initial",
        default,
        "First threshold",
        "It adapts soon. Start near the size of a parameter's change in one step, so that the "
        "first messages are small.",
    )


_DECAY_OPTION = Option(
    name="decay",
    kind="float",
    default=_DECAY,
    minimum=0.5,
    below=1,
    label="Factor of one step",
    advice="Twenty steps of the default halve the threshold. A smaller factor adapts faster, and "
    "overshoots.",
)


_CHECKPOINTING = (
    Option(
        name="url",
        kind="text",
        default="",
        label="Folder",
        advice="A path or a URL such as hdfs:// or s3://, of its own for each run.",
    ),
    Option(
        name="every_rounds",
        kind="int",
        optional=True,
        minimum=1,
        none_text="only time counts",
        unit="rounds",
        label="After",
        advice="Averagings; with gradient sharing, minibatches of a worker.",
    ),
    Option(
        name="every_s",
        kind="float",
        optional=True,
        above=0,
        none_text="60 s, or by rounds alone",
        unit="s",
        label="Or after",
        advice="What is lost with a crash is at most what was learnt in this time.",
    ),
    Option(
        name="keep",
        kind="int",
        default=3,
        minimum=1,
        unit="checkpoints",
        advice="More than 1 is safer: if the newest is damaged, the one before serves.",
    ),
)
_CLIPPING = (
    Option(
        name="multiple",
        kind="float",
        default=5.0,
        minimum=1,
        unit="thresholds",
        label="At most",
        advice="What waits to be sent is cut to so many thresholds, so that no change is sent long "
        "after it was of use.",
    ),
    Option(
        name="every",
        kind="int",
        default=5,
        minimum=1,
        unit="minibatches",
        advice="How often; 5 costs next to nothing.",
    ),
)
_NTP = (
    Option(
        name="server",
        kind="text",
        default="pool.ntp.org",
        advice="Your own network's server, if it has one, is nearer and so more exact.",
    ),
    Option(
        name="every_s",
        kind="float",
        default=1800.0,
        minimum=30,
        unit="s",
        label="Asked every",
        advice="Clocks drift apart by some milliseconds in this time; public servers refuse those "
        "who ask often.",
    ),
    Option(
        name="retries",
        kind="int",
        default=10,
        minimum=1,
        label="Given up after",
        unit="questions",
        advice="Then the machine goes on with its own clock, and the run warns of it.",
    ),
    Option(
        name="timeout_s",
        kind="float",
        default=10.0,
        above=0,
        unit="s",
        label="Answer must come within",
        advice="Training does not wait for it.",
    ),
)
OF_NESTED_CLASSES: dict[type[Any], tuple[Option, ...]] = {
    MeshConfig: MESH_OPTIONS,
    Checkpointing: _CHECKPOINTING,
    FixedThreshold: (
        _threshold(
            "threshold",
            1e-3,
            "Threshold",
            "Changes from this size on are sent. Too large sends too little, and training slows "
            "down; too small fills the network.",
        ),
    ),
    AdaptiveThreshold: (
        _initial(1e-4),
        _threshold(
            "min_sparsity",
            1e-4,
            "Sent of all, at least",
            "Below this share of the parameters in a message, the threshold falls.",
        ),
        _threshold(
            "max_sparsity",
            1e-2,
            "Sent of all, at most",
            "Above this share, the threshold rises. 0.01 means a hundredth of the parameters.",
        ),
        _DECAY_OPTION,
    ),
    TargetSparsity: (
        _initial(1e-4),
        Option(
            name="target",
            kind="float",
            default=1e-3,
            minimum=_SMALLEST,
            below=1 / 16,
            label="Sent of all",
            advice="The share of the parameters that a message should hold; 0.001 means a "
            "thousandth.",
        ),
        _DECAY_OPTION,
    ),
    ResidualClipping: _CLIPPING,
    DefaultRepartitioner: (
        Option(
            name="max_partitions",
            kind="int",
            default=5000,
            minimum=1,
            unit="pieces",
            label="Pieces of an epoch, at most",
            advice="Up to this number a piece is one minibatch.",
        ),
    ),
    NoRepartitioner: (),
    SystemClock: (),
    NtpClock: _NTP,
}
_CHECKPOINT = NestedOption(
    name="checkpoint",
    label="Checkpoints",
    advice="Files to go on from after a crash. Worth it for runs of more than some minutes.",
    kinds={"on": Checkpointing},
    default=None,
    optional=True,
    group=CHECKPOINTS,
)
_MESH_CONFIG = NestedOption(
    name="mesh",
    label="Addresses and time-outs",
    advice="How driver and workers reach one another; on one machine nothing has to be set.",
    kinds={"on": MeshConfig},
    default="on",
    group=ADDRESSES,
)
_TIME_SOURCE = NestedOption(
    name="time_source",
    label="Clock of the timeline",
    advice="By default the machines' clocks are compared with the driver's over the run's own "
    "connections, which suits almost everybody.",
    kinds={"system": SystemClock, "ntp": NtpClock},
    default=None,
    optional=True,
    named=True,
    group=TIMES,
)
_NESTED: dict[type[Any], tuple[NestedOption, ...]] = {
    ParameterAveragingTrainingMaster: (_CHECKPOINT, _MESH_CONFIG, _TIME_SOURCE),
    SharedTrainingMaster: (
        NestedOption(
            name="threshold",
            label="How the threshold adapts",
            advice='How large a change must be to be sent. "adaptive" keeps messages small but not '
            'empty and is a good choice; "fixed" needs to be tuned.',
            kinds={
                "adaptive": AdaptiveThreshold,
                "target": TargetSparsity,
                "fixed": FixedThreshold,
            },
            default="adaptive",
            named=True,
            group=THRESHOLD,
        ),
        NestedOption(
            name="residual_clipping",
            label="Clip what waits to be sent",
            advice="Against a growing backlog of old changes. Leave it on.",
            kinds={"on": ResidualClipping},
            default="on",
            optional=True,
            group=CLIPPING,
        ),
        NestedOption(
            name="repartitioner",
            label="Cut an epoch's work",
            advice='"default": into small pieces, so that workers of unequal speed finish '
            'together. "none": as large as possible.',
            kinds={"default": DefaultRepartitioner, "none": NoRepartitioner},
            default="default",
            named=True,
            group=PIECES,
        ),
        _CHECKPOINT,
        _MESH_CONFIG,
        _TIME_SOURCE,
    ),
}


def nested_options(cls: type[Any]) -> tuple[NestedOption, ...]:
    """The options of a training master's class that are objects with options of their own.

    Raises:
        ConfigurationError: if nothing is known of `cls`.

    Example:
        >>> [option.name for option in nested_options(ParameterAveragingTrainingMaster)]
        ['checkpoint', 'mesh', 'time_source']
    """
    found = _NESTED.get(cls)
    if found is None:
        known = ", ".join(each.__name__ for each in _NESTED)
        raise ConfigurationError(f"nested options are described of {known}. Received: {cls!r}.")
    return found
