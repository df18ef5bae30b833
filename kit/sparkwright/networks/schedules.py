"""Schedules of the learning rate, as options: how it changes from minibatch to minibatch. Pure."""

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

_UNIT = "minibatches of a worker"
_LENGTH = "Of one worker: an epoch has examples / (workers x minibatch size)."


@configuration
class AbstractSchedule(Configuration):
    """How the learning rate of an optimizer changes.

    Its `keras_class` in `keras.optimizers.schedules` is made of its `arguments`.
    """

    keras_class: ClassVar[str] = ""

    def arguments(self, rate: float) -> dict[str, Any]:
        """The arguments of Keras' class, where the optimizer's `learning_rate` is `rate`."""
        raise NotImplementedError


@configuration
class CosineSchedule(AbstractSchedule):
    """Rises to the learning rate, then falls along a cosine.

    Example:
        >>> CosineSchedule(decay_steps=900, warmup_steps=100).arguments(0.1)["warmup_target"]
        0.1
    """

    _kind: ClassVar[str] = "cosine"
    keras_class: ClassVar[str] = "CosineDecay"

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
        found = {"initial_learning_rate": rate, "decay_steps": self.decay_steps}
        if self.final_share:
            found["alpha"] = self.final_share
        if not self.warmup_steps:
            return found
        warm = {"warmup_target": rate, "warmup_steps": self.warmup_steps}
        return {**found, "initial_learning_rate": 0.0, **warm}


@configuration
class ExponentialSchedule(AbstractSchedule):
    """Falls by the same factor in equal times."""

    _kind: ClassVar[str] = "exponential"
    keras_class: ClassVar[str] = "ExponentialDecay"

    decay_steps: int = option(
        default=1000, minimum=1, unit=_UNIT, label="Falls by the factor in", help=_LENGTH
    )
    factor: float = option(default=0.9, above=0, maximum=1, help="What is left after that time.")
    staircase: bool = option(
        default=False, label="In stairs", help="Falls at once, not a little with each minibatch."
    )

    def arguments(self, rate: float) -> dict[str, Any]:
        """See the base."""
        found = {
            "initial_learning_rate": rate,
            "decay_steps": self.decay_steps,
            "decay_rate": self.factor,
        }
        return {**found, "staircase": True} if self.staircase else found


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


@configuration
class WarmUpSchedule(AbstractSchedule):
    """Rises from 0 to the learning rate, and stays there."""

    _kind: ClassVar[str] = "warm_up"
    keras_class: ClassVar[str] = "PolynomialDecay"

    warmup_steps: int = option(
        default=100, minimum=1, unit=_UNIT, label="Warms up for", help=_LENGTH
    )

    def arguments(self, rate: float) -> dict[str, Any]:
        """See the base."""
        return {
            "initial_learning_rate": 0.0,
            "decay_steps": self.warmup_steps,
            "end_learning_rate": rate,
        }


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
    match name:
        case "CosineDecay":
            warm = int(settings.get("warmup_steps") or 0)
            rate = settings["warmup_target"] if warm else settings["initial_learning_rate"]
            return float(rate), CosineSchedule(
                decay_steps=int(settings["decay_steps"]),
                warmup_steps=warm,
                final_share=float(settings["alpha"]),
            )
        case "ExponentialDecay":
            return float(settings["initial_learning_rate"]), ExponentialSchedule(
                decay_steps=int(settings["decay_steps"]),
                factor=float(settings["decay_rate"]),
                staircase=bool(settings["staircase"]),
            )
        case "PiecewiseConstantDecay" if settings["values"][0]:
            first, second, *_ = settings["values"]
            factor = float(f"{second / first:.7g}")
            return float(first), PiecewiseSchedule(
                boundaries=tuple(map(int, settings["boundaries"])), factor=factor
            )
        case "PolynomialDecay":
            steps = int(settings["decay_steps"])
            return float(settings["end_learning_rate"]), WarmUpSchedule(warmup_steps=steps)
        case _:
            return None
