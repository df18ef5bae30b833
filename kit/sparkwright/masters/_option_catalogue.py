"""What a person should know about each option of the training masters: unit, bounds, advice.

Forms are made of it. The classes check their values themselves; tests hold both against each other.
"""

from typing import Any

from sparkwright._option import Option
from sparkwright.errors import ConfigurationError

from ._early_stopping import EarlyStopping
from ._early_stopping_catalogue import EARLY_STOPPING
from ._nested_catalogue import OF_NESTED_CLASSES
from ._options import MAX_SEED
from ._parameter_averaging import ParameterAveragingTrainingMaster
from ._shared_training import SharedTrainingMaster
from ._training_master import STORAGE_LEVELS

# Names of groups; options without one are what most people change.
DATA = "Data and partitions"
MESSAGES = "Messages between workers"
SPEED = "Speed"
DIAGNOSTICS = "Failures and diagnostics"

_WORKERS = Option(
    name="workers",
    kind="int",
    optional=True,
    minimum=1,
    none_text="all task slots",
    advice="Each worker takes one task slot, and 650 MiB or more for TensorFlow. With more "
    "workers than slots a run does not start.",
)
_BATCH_SIZE = Option(
    name="batch_size_per_worker",
    kind="int",
    default=16,
    minimum=1,
    label="Batch size per worker",
    unit="examples",
    advice="As on one machine: examples of each update of one worker. 32 to 128 keep a worker "
    "busier than 16; with many workers the network sees that many more examples at once.",
)
_SEED = Option(
    name="seed",
    kind="int",
    maximum=MAX_SEED,
    optional=True,
    minimum=0,
    none_text="drawn anew for each run",
    advice="Give a number if runs are to be compared: it fixes shuffles and who gets which data.",
)
_COMMON_DATA = (
    Option(
        name="shuffle",
        kind="flag",
        default=True,
        group=DATA,
        label="Shuffle in each epoch",
        advice="Leave it on unless the order of the examples matters: sorted data trains badly.",
    ),
    Option(
        name="repartition",
        kind="choice",
        default="always",
        choices=("always", "never", "num_partitions_workers_differs"),
        group=DATA,
        label="Redistribute the data",
        advice='"always" gives each worker its fair share. "never" saves the shuffle and suits '
        "data that lies evenly already; a worker with little data waits for the others.",
    ),
    Option(
        name="repartition_strategy",
        kind="choice",
        default="balanced",
        choices=("balanced", "approximate_balanced", "spark_default"),
        group=DATA,
        advice='"balanced" makes shares that differ by one example at most, but counts first. '
        '"spark_default" deals at random: with little data, shares become uneven.',
    ),
    Option(
        name="prefetch_batches",
        kind="int",
        default=2,
        minimum=0,
        unit="minibatches",
        group=DATA,
        label="Gathered ahead",
        advice="2 is sensible; 0 switches it off. Much more takes memory and seldom helps.",
    ),
    Option(
        name="storage_level",
        kind="choice",
        default="MEMORY_ONLY",
        choices=STORAGE_LEVELS,
        optional=True,
        none_text="not kept",
        group=DATA,
        advice="How Spark keeps the data while a run reads it. Take MEMORY_AND_DISK if the data is "
        "larger than the executors' memory and costly to compute again.",
    ),
    Option(
        name="training_approach",
        kind="choice",
        default="direct",
        choices=("direct", "export"),
        group=DATA,
        advice='"direct" streams each worker its share once. "export" writes minibatches to files '
        "first, which pays if several runs read the same data.",
    ),
    Option(
        name="export_directory",
        kind="text",
        optional=True,
        none_text="a temporary folder of this machine",
        group=DATA,
        label="Folder for exported minibatches",
        advice='Only with "export". On a cluster it must be a place that all machines reach, such '
        "as hdfs:// or s3://.",
    ),
    Option(
        name="storage_level_paths",
        kind="choice",
        default="MEMORY_ONLY",
        choices=STORAGE_LEVELS,
        optional=True,
        none_text="not kept",
        group=DATA,
        label="Storage level of paths",
        advice="The same for lists of exported files. They are small; leave it as it is.",
    ),
)
_XLA = Option(
    name="xla",
    kind="choice",
    default="auto",
    choices=("auto", "on", "off", "measure"),
    group=SPEED,
    label="XLA compiler",
    advice='"auto" is off on a CPU and tries it out on a GPU. "measure" tries it out anywhere.',
)
_NON_FINITE = Option(
    name="non_finite",
    kind="choice",
    default="stop",
    choices=("stop", "continue"),
    group=DIAGNOSTICS,
    label="When a loss is NaN or infinite",
    advice='"stop" keeps the last good state; to go on seldom leads anywhere.',
)
_STATS = Option(
    name="collect_training_stats",
    kind="flag",
    group=DIAGNOSTICS,
    default=False,
    label="Time each phase",
    advice="Shows where the time goes. It costs little; switch it on if a run is slow.",
)

_AVERAGING = (
    _WORKERS,
    _BATCH_SIZE,
    Option(
        name="averaging_frequency",
        kind="int",
        default=5,
        minimum=1,
        label="Average after",
        unit="minibatches",
        advice="1 spends most on communication, 5 to 10 is a safe choice, and at 200 the workers' "
        "networks drift so far apart that their average is poor.",
    ),
    Option(
        name="save_updater",
        kind="flag",
        default=True,
        label="Average optimizer state",
        advice="It makes messages larger, with Adam three times as large. Off, the optimizer's "
        "moments start afresh after each averaging, which often trains worse.",
    ),
    _SEED,
    *_COMMON_DATA,
    Option(
        name="communication",
        kind="choice",
        default="ring",
        choices=("ring", "spark"),
        group=MESSAGES,
        label="Averaging goes by",
        advice='"ring": the workers exchange parameters among themselves, in milliseconds. '
        '"spark": a Spark job each time, some tenths of a second; where ports are closed.',
    ),
    Option(
        name="aggregation_depth",
        kind="int",
        default=2,
        minimum=1,
        unit="levels",
        group=MESSAGES,
        advice='Only with communication "spark": 2 suits up to some hundred workers.',
    ),
    Option(
        name="share_work",
        kind="flag",
        default=False,
        group=SPEED,
        label="Fast workers help slow ones",
        advice="Worth it on machines of unequal speed. Results then depend on timing, so that two "
        "runs differ a little even with a seed.",
    ),
    _XLA,
    _NON_FINITE,
    _STATS,
)
_SHARING = (
    _WORKERS,
    Option(
        name="workers_per_node",
        kind="int",
        optional=True,
        minimum=1,
        none_text="automatic",
        advice="Instead of the number of workers: so many on each Spark executor. 1 is good on "
        "CPUs; automatic takes one for each GPU, else a quarter of the cores.",
    ),
    _BATCH_SIZE,
    Option(
        name="combine",
        kind="choice",
        default="sum",
        choices=("sum", "mean"),
        label="Updates count",
        advice='"sum": in full; n workers then act like a learning rate n times as high. "mean": '
        "1 / n each, safer with many workers.",
    ),
    Option(
        name="max_staleness",
        kind="int",
        optional=True,
        minimum=0,
        none_text="no limit",
        unit="minibatches",
        label="Ahead of the slowest, at most",
        advice="About 10 keeps the updates of a slow machine of use. 0 makes all go in step, and "
        "the fast ones wait.",
    ),
    _SEED,
    *_COMMON_DATA,
    Option(
        name="piece_minibatches",
        kind="int",
        optional=True,
        minimum=1,
        unit="minibatches",
        none_text="as the pieces of work say",
        group=DATA,
        label="Piece of work",
        advice="What a worker is given at a time. Smaller pieces let all finish an epoch together.",
    ),
    Option(
        name="minibatches_per_message",
        kind="int",
        optional=True,
        minimum=1,
        none_text="as many as are over in 40 ms, at most 5",
        unit="minibatches",
        group=MESSAGES,
        advice="1 tells the others at once. A message costs 3 or 4 ms, whatever it holds, so quick "
        "minibatches should share one.",
    ),
    Option(
        name="per_variable_thresholds",
        kind="flag",
        default=False,
        group=MESSAGES,
        label="A threshold for each variable",
        advice="Worth it when updates of some layers are much larger than those of others.",
    ),
    Option(
        name="periodic_gc",
        kind="flag",
        default=True,
        group=SPEED,
        label="Collect garbage at intervals",
        advice="Python's collector then does not hold up minibatches. Leave it on.",
    ),
    Option(
        name="periodic_gc_interval_s",
        kind="float",
        default=5.0,
        above=0,
        unit="s",
        group=SPEED,
        label="Garbage collected every",
        advice="Shorten it if the memory of workers grows between collections.",
    ),
    _XLA,
    Option(
        name="encoding_debug_mode",
        kind="flag",
        default=False,
        group=DIAGNOSTICS,
        label="Log what messages leave out",
        advice="It costs time. Use it to choose a threshold: if most of what waits is tens of "
        "thresholds large, the threshold is too low.",
    ),
    _NON_FINITE,
    _STATS,
)
_OF_CLASSES: dict[type[Any], tuple[Option, ...]] = {
    ParameterAveragingTrainingMaster: _AVERAGING,
    SharedTrainingMaster: _SHARING,
    EarlyStopping: EARLY_STOPPING,
    **OF_NESTED_CLASSES,
}


def options_of_master(cls: type[Any]) -> tuple[Option, ...]:
    """The options of a training master's class, or of a class nested in one, as forms show them.

    Options that are objects themselves are not among them; see `nested_options`. Nor are hooks.

    Args:
        cls: ParameterAveragingTrainingMaster, SharedTrainingMaster, EarlyStopping, MeshConfig,
            Checkpointing, a threshold algorithm, ResidualClipping or a repartitioner.

    Raises:
        ConfigurationError: if nothing is known of `cls`.

    Example:
        >>> [option.name for option in options_of_master(ParameterAveragingTrainingMaster)][:3]
        ['workers', 'batch_size_per_worker', 'averaging_frequency']
    """
    found = _OF_CLASSES.get(cls)
    if found is None:
        known = ", ".join(each.__name__ for each in _OF_CLASSES)
        raise ConfigurationError(f"options are described of {known}. Received: {cls!r}.")
    return found
