"""Schedules of the learning rate, as options: how it changes from minibatch to minibatch. Pure."""

from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Self

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

_UNIT = "minibatches of a worker"
_LENGTH = "Of one worker: an epoch has examples / (workers x minibatch size)."


@configuration
class AbstractSchedule(Configuration):
    """How the learning rate of an optimizer changes: a class of `keras.optimizers.schedules`.

    Its fields are arguments of that class, some under plainer names.
    """

    keras_class: ClassVar[str] = ""
    _rate: ClassVar[str] = "initial_learning_rate"  # the argument that is the optimizer's
    _renamed: ClassVar[Mapping[str, str]] = {}  # field -> argument

    def arguments(self, rate: float) -> dict[str, Any]:
        """The arguments of Keras' class, where the optimizer's `learning_rate` is `rate`."""
        values = {self._renamed.get(f.name, f.name): getattr(self, f.name) for f in fields(self)}
        return {self._rate: rate, **{name: value for name, value in values.items() if value}}

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> tuple[float, Self]:
        """Learning rate and schedule of what `get_config` of Keras' class returns."""
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
    """Rises to the learning rate, then falls along a cosine.

    Example:
        >>> CosineSchedule(decay_steps=900, warmup_steps=100).arguments(0.1)["warmup_target"]
        0.1
    """

    _kind: ClassVar[str] = "cosine"
    keras_class: ClassVar[str] = "CosineDecay"
    _renamed: ClassVar[Mapping[str, str]] = {"final_share": "alpha"}

    decay_steps: int = option(
        default=1000, minimum=1, unit=_UNIT, label="Falls for", help=f"After warming up. {_LENGTH}"
    )
    warmup_steps: int = option(
        default=0,
        minimum=0,
        unit=_UNIT,
        label="Warms up for",
        help="Rises from 0 to the learning rate first; helps large networks and minibatches.",
    )
    final_share: float = option(
        default=0.0,
        minimum=0,
        maximum=1,
        label="Falls to this share",
        help="Of the learning rate; it stays there.",
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
    """Falls by the same factor in equal times."""

    _kind: ClassVar[str] = "exponential"
    keras_class: ClassVar[str] = "ExponentialDecay"
    _renamed: ClassVar[Mapping[str, str]] = {"factor": "decay_rate"}

    decay_steps: int = option(
        default=1000, minimum=1, unit=_UNIT, label="Falls by the factor in", help=_LENGTH
    )
    factor: float = option(default=0.9, above=0, maximum=1, help="What is left after that time.")
    staircase: bool = option(
        default=False, label="In stairs", help="Falls at once, not a little with each minibatch."
    )


@configuration
class PiecewiseSchedule(AbstractSchedule):
    """Is constant, and multiplied by a factor at some minibatches.

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
        label="Changes after",
        help=f"One number or several, such as 1000, 2000. {_LENGTH}",
    )
    factor: float = option(default=0.1, above=0, help="By which it is multiplied each time.")

    def _check(self) -> None:
        given: Any = self.boundaries
        boundaries = (given,) if isinstance(given, int) else tuple(given)
        object.__setattr__(self, "boundaries", boundaries)
        if any(after <= before for before, after in pairwise(boundaries)):
            raise ConfigurationError(
                "`boundaries` must be in order, and differ. Received: "
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
    """Rises from 0 to the learning rate, and stays there."""

    _kind: ClassVar[str] = "warm_up"
    keras_class: ClassVar[str] = "PolynomialDecay"
    _rate: ClassVar[str] = "end_learning_rate"
    _renamed: ClassVar[Mapping[str, str]] = {"warmup_steps": "decay_steps"}

    warmup_steps: int = option(
        default=100, minimum=1, unit=_UNIT, label="Warms up for", help=_LENGTH
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
    """Learning rate and schedule of a class of Keras; None: none that is known here.

    What these cannot hold is left out; compare what they make.

    Args:
        name: the class in `keras.optimizers.schedules`.
        settings: what its `get_config` returns.
    """
    kind = next((kind for kind in SCHEDULES.values() if kind.keras_class == name), None)
    try:
        return None if kind is None else kind.read(settings)
    except ZeroDivisionError:  # of a factor
        return None
