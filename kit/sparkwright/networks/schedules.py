"""Learning rate schedules as configurations. Imports no Keras."""

from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Self

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

_UNIT = "minibatches of a worker"
_LENGTH = "One epoch has examples / (workers x minibatch size) minibatches per worker."


@configuration
class AbstractSchedule(Configuration):
    """Learning rate schedule, built as a class of `keras.optimizers.schedules`."""

    # Fields are arguments of this class; some have simpler names.

    keras_class: ClassVar[str] = ""
    _rate: ClassVar[str] = "initial_learning_rate"  # argument set to the optimizer's rate
    _renamed: ClassVar[Mapping[str, str]] = {}  # field -> argument of the Keras class

    def arguments(self, rate: float) -> dict[str, Any]:
        """Return the arguments of the Keras class for an optimizer with this learning rate."""
        values = {self._renamed.get(f.name, f.name): getattr(self, f.name) for f in fields(self)}
        return {self._rate: rate, **{name: value for name, value in values.items() if value}}

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> tuple[float, Self]:
        """Return the learning rate and the schedule from a Keras schedule's `get_config()`."""
        own = {
            field.name: type(field.default)(config[cls._renamed.get(field.name, field.name)])
            for field in fields(cls)
        }
        return cls._rate_in(config), cls(**own)

    @classmethod
    def _rate_in(cls, config: Mapping[str, Any]) -> float:
        return float(config[cls._rate])


@configuration
class CosineSchedule(AbstractSchedule):
    """Cosine decay, with an optional linear warm-up from 0.

    Example:
        >>> CosineSchedule(decay_steps=900, warmup_steps=100).arguments(0.1)["warmup_target"]
        0.1
    """

    _kind: ClassVar[str] = "cosine"
    keras_class: ClassVar[str] = "CosineDecay"
    _renamed: ClassVar[Mapping[str, str]] = {"final_share": "alpha"}

    decay_steps: int = option(
        default=1000, minimum=1, unit=_UNIT, label="Decay steps", help=f"After warm-up. {_LENGTH}"
    )
    warmup_steps: int = option(
        default=0,
        minimum=0,
        unit=_UNIT,
        label="Warm-up steps",
        help="The rate first rises from 0. Helps with large networks and large minibatches.",
    )
    final_share: float = option(
        default=0.0,
        minimum=0,
        maximum=1,
        label="Final fraction",
        help="Fraction of the learning rate that is kept after the decay.",
    )

    def arguments(self, rate: float) -> dict[str, Any]:
        """See the base."""
        found = AbstractSchedule.arguments(self, rate)
        warm = {"initial_learning_rate": 0.0, "warmup_target": rate}
        return {**found, **warm} if self.warmup_steps else found

    @classmethod
    def _rate_in(cls, config: Mapping[str, Any]) -> float:
        return float(config["warmup_target" if config["warmup_steps"] else cls._rate])


@configuration
class ExponentialSchedule(AbstractSchedule):
    """Exponential decay: the rate is multiplied by `factor` every `decay_steps`."""

    _kind: ClassVar[str] = "exponential"
    keras_class: ClassVar[str] = "ExponentialDecay"
    _renamed: ClassVar[Mapping[str, str]] = {"factor": "decay_rate"}

    decay_steps: int = option(
        default=1000, minimum=1, unit=_UNIT, label="Decay steps", help=_LENGTH
    )
    factor: float = option(
        default=0.9, above=0, maximum=1, help="The rate is multiplied by it every decay steps."
    )
    staircase: bool = option(
        default=False,
        label="Staircase",
        help="Decay in steps instead of a little with each minibatch.",
    )


@configuration
class PiecewiseSchedule(AbstractSchedule):
    """Piecewise constant: the rate is multiplied by `factor` after each boundary.

    Example:
        >>> PiecewiseSchedule(boundaries=(100, 200)).arguments(0.1)["values"]
        [0.1, 0.01, 0.001]
    """

    _kind: ClassVar[str] = "piecewise"
    keras_class: ClassVar[str] = "PiecewiseConstantDecay"

    boundaries: tuple[int, ...] = option(
        default=(1000,),
        kind="ints",
        minimum=1,
        unit=_UNIT,
        label="Boundaries",
        help=f"One or several, such as 1000, 2000. {_LENGTH}",
    )
    factor: float = option(
        default=0.1, above=0, help="The rate is multiplied by it after each boundary."
    )

    def _check(self) -> None:
        given: Any = self.boundaries
        boundaries = (given,) if isinstance(given, int) else tuple(given)
        object.__setattr__(self, "boundaries", boundaries)
        if any(after <= before for before, after in pairwise(boundaries)):
            raise ConfigurationError(
                "`boundaries` must be in increasing order. Received: "
                f"boundaries={self.boundaries!r}."
            )

    def arguments(self, rate: float) -> dict[str, Any]:
        """See the base."""
        values = [float(f"{rate * self.factor**n:.7g}") for n in range(len(self.boundaries) + 1)]
        return {"boundaries": list(self.boundaries), "values": values}

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> tuple[float, Self]:
        """See the base."""
        first, second, *_ = config["values"]
        factor = float(f"{second / first:.7g}")
        return float(first), cls(boundaries=tuple(map(int, config["boundaries"])), factor=factor)


@configuration
class WarmUpSchedule(AbstractSchedule):
    """Linear warm-up from 0 to the learning rate, which then stays constant."""

    _kind: ClassVar[str] = "warm_up"
    keras_class: ClassVar[str] = "PolynomialDecay"
    _rate: ClassVar[str] = "end_learning_rate"
    _renamed: ClassVar[Mapping[str, str]] = {"warmup_steps": "decay_steps"}

    warmup_steps: int = option(
        default=100, minimum=1, unit=_UNIT, label="Warm-up steps", help=_LENGTH
    )

    def arguments(self, rate: float) -> dict[str, Any]:
        """See the base."""
        return {"initial_learning_rate": 0.0, **AbstractSchedule.arguments(self, rate)}


SCHEDULES: Mapping[str, type[AbstractSchedule]] = MappingProxyType(
    {
        "cosine": CosineSchedule,
        "exponential": ExponentialSchedule,
        "piecewise": PiecewiseSchedule,
        "warm_up": WarmUpSchedule,
    }
)


def read_schedule(name: str, settings: Mapping[str, Any]) -> tuple[float, AbstractSchedule] | None:
    """Return learning rate and schedule for a Keras schedule; None for an unsupported class."""
    # Settings that the schedule cannot hold are dropped: compare the schedule it builds.
    kind = next((kind for kind in SCHEDULES.values() if kind.keras_class == name), None)
    try:
        return None if kind is None else kind.read(settings)
    except ZeroDivisionError:  # a factor cannot be computed from a first rate of 0
        return None
