"""Synchronous training by averaging the workers' parameters every few minibatches."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from sparkwright.configuration import configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.options import check_flag

from .outer_optimizer import OuterOptimizer
from .plan import Exchange, Frequency, by_epoch, frequency_in
from .training_master import MESSAGES, SPEED, TrainingMaster

Communication = Literal["ring", "driver", "spark"]
Updater = Literal["average", "local", "reset"]
ExchangePrecision = Literal["float32", "bfloat16", "int8"]
# Size of a message relative to float32; int8 has one scale per 256 numbers.
_DENSITY: dict[ExchangePrecision, float] = {"float32": 1.0, "bfloat16": 0.5, "int8": 65 / 256}


@configuration
class ParameterAveragingTrainingMaster(TrainingMaster):
    """Each worker trains a replica on its own data; replicas are averaged every few minibatches.

    Let x_w be a worker's parameters and n_w its minibatches since the last averaging:

        x  <-  sum_w n_w x_w / sum_w n_w

    and the same for other floating-point state (BatchNormalization statistics) and, with
    `updater="average"`, for the optimizer's moments.

    With `averaging_delay`, workers continue training from x_w while the mean is computed. After
    that many minibatches, each worker adds the change, mean - x_w, to its current parameters. The
    workers wait for the mean at the end of training and before validation, checkpoints and
    callbacks.

    Example:
        >>> master = ParameterAveragingTrainingMaster(batch_size_per_worker=32)
        >>> ParameterAveragingTrainingMaster.from_json(master.to_json()) == master
        True

    References:
        Deeplearning4j's class of the same name; K. Chen and Q. Huo, "Scalable training of deep
        learning machines by incremental block training with intra-block parallel optimization and
        blockwise model-update filtering", ICASSP 2016; T. Lin et al., "Don't use large
        mini-batches, use local SGD", ICLR 2020, arXiv:1808.07217 (an
        `averaging_frequency` by epoch);
        S. Shen et al., "Faster distributed deep net training: Computation and communication
        decoupled stochastic gradient descent", IJCAI 2019, arXiv:1906.12043; A. Douillard et al.,
        "Streaming DiLoCo with overlapping communication", 2025, arXiv:2501.18512
        (`averaging_delay`).
    """

    averaging_frequency: Frequency = option(
        default=5,
        kind="schedule",
        minimum=1,
        label="Average after",
        unit="minibatches",
        help="Minibatches of each worker between averagings. 1 communicates most and 5 to 10 is "
        "a safe choice; at 200, replicas drift so far apart that their average is poor. A "
        "dict changes it by epoch: {1: 1, 3: 5} averages after every minibatch in epochs 1 "
        "and 2, then after every 5, as in post-local SGD: replicas drift apart most while "
        "the loss falls fast.",
    )
    aggregation_depth: int = option(
        default=2,
        minimum=1,
        unit="levels",
        group=MESSAGES,
        help='Depth of Spark\'s treeAggregate, only with `communication="spark"`: 2 suits up to '
        "some hundred workers. Vectors of more than 16 MiB are summed in parts, in a shuffle.",
    )
    updater: Updater = option(
        default="average",
        label="Optimizer moments",
        help='"average": average the optimizer\'s moments too; with Adam messages are three '
        'times as large. "local": each worker keeps its own, as in DiLoCo. "reset": reset '
        "them after each averaging, which often trains worse. The iteration count is kept.",
    )
    outer_optimizer: OuterOptimizer | None = option(
        default=None,
        none_text="none: the plain mean",
        label="Outer optimizer",
        help="Momentum on the changes by averagings, for infrequent averagings. It applies to "
        "trainable parameters only.",
    )
    exchange_precision: ExchangePrecision = option(
        default="float32",
        group=MESSAGES,
        label="Precision of messages",
        help='"bfloat16" halves the messages, "int8" makes them a quarter as large, for slow '
        "networks. Workers send rounded changes of the parameters and add the rounding "
        'error to their next message. Both need `updater="local"` or "reset".',
    )
    averaging_delay: int = option(
        default=0,
        minimum=0,
        unit="minibatches",
        group=MESSAGES,
        help="Minibatches that a worker trains while an averaging is in progress, for slow "
        "networks; the average is applied afterwards. 0: workers wait for it. At most the "
        'averaging frequency of the epoch. It needs `updater="local"` or "reset".',
    )
    communication: Communication = option(
        default="ring",
        group=MESSAGES,
        help='"ring": workers exchange parameters directly, in milliseconds. "driver": all '
        "connections are forwarded through the driver's port, for clusters where executors "
        'may not open ports to each other. "spark": one Spark job per averaging, some '
        "tenths of a second, if executors cannot reach that port either. The results are "
        "the same.",
    )
    share_work: bool = option(
        default=False,
        group=SPEED,
        label="Balance by speed",
        help="Size rounds by each worker's measured speed; idle workers take over the remaining "
        "work of an epoch. Useful on machines of unequal speed. Results then depend on "
        "timing, even with a seed.",
    )

    def _check(self) -> None:
        TrainingMaster._check(self)  # `slots=True` replaces the class, which breaks `super()`
        if isinstance(self.averaging_frequency, Mapping):  # the caller may modify it
            object.__setattr__(self, "averaging_frequency", dict(self.averaging_frequency))
        delay, frequency = self.averaging_delay, self.averaging_frequency
        if delay > max(by_epoch(frequency).values()):
            raise ConfigurationError(
                "`averaging_delay` must be at most `averaging_frequency`: an averaging ends before "
                f"the next one begins. Received: averaging_delay={delay}, averaging_frequency="
                f"{frequency}."
            )
        # Option -> whether it is used, and whether it excludes the averaging of moments.
        used = {
            "max_workers": (self.max_workers is not None, False),
            "updater": (self.updater == "local", False),
            "averaging_delay": (delay > 0, True),
            "exchange_precision": (self.exchange_precision != "float32", True),
        }
        for name, (is_used, excludes_moments) in used.items():
            value = getattr(self, name)
            given = f"`{name}={value}`" if isinstance(value, int) else f'`{name}="{value}"`'
            if is_used and self.communication == "spark":
                raise ConfigurationError(
                    f'{given} needs `communication="ring"` or "driver": a Spark job for each '
                    "averaging waits for all its tasks, and may run a worker's next round in "
                    'another process. Received: communication="spark".'
                )
            if is_used and excludes_moments and self.updater == "average":
                raise ConfigurationError(
                    f'{given} needs `updater="local"` or "reset": delayed or rounded moments may '
                    'become negative, which is invalid. Received: updater="average".'
                )

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Convert settings with epochs as text (JSON), or with the former `save_updater`."""
        given = settings.get("averaging_frequency")
        if isinstance(given, Mapping):
            numbers = {_number(key): each for key, each in cast("Mapping[Any, Any]", given).items()}
            settings = {**settings, "averaging_frequency": numbers}
        if "save_updater" not in settings:
            return settings
        check_flag("save_updater", settings["save_updater"])
        updater = "average" if settings["save_updater"] else "reset"
        rest = {name: value for name, value in settings.items() if name != "save_updater"}
        return {"updater": updater, **rest}

    def frequency_in(self, epoch: int) -> int:
        """Return the minibatches of each worker between averagings in `epoch`, from 0."""
        return frequency_in(self.averaging_frequency, epoch)

    def velocity_size(self, trainable: int) -> int:
        """Return the size of the outer optimizer's velocity for trainable parameters."""
        return trainable if self.outer_optimizer and self.outer_optimizer.momentum else 0

    @property
    def exchange(self) -> Exchange:
        """Return the exchanges: parameters and, with `updater="average"`, moments."""
        return Exchange(
            what=("parameters", "moments") if self.updater == "average" else ("parameters",),
            every=self.averaging_frequency,
            precision=self.exchange_precision,
            density=_DENSITY[self.exchange_precision],
            delay=min(self.averaging_delay, frequency_in(self.averaging_frequency)),
            among=self.communication,
        )


def _number(key: Any) -> Any:
    """Convert text to an integer; return other values unchanged."""
    try:
        return int(key) if isinstance(key, str) else key
    except ValueError:
        return key
