"""Optimizers: their settings, and how much state they keep."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sparkwright.options import Option

Options = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerKind:
    """One class of optimizers.

    Attributes:
        name: the class in Keras.
        sentence: when to choose it.
        options: with Keras' defaults.
        slots: how many numbers it keeps for each trainable one, of the options.
    """

    name: str
    sentence: str
    options: tuple[Option, ...]
    slots: Callable[[Options], int]

    @property
    def defaults(self) -> dict[str, Any]:
        """What each option is when it is not given."""
        return {option.name: option.default for option in self.options}

    def option(self, name: str) -> Option | None:
        """The option of that name; None: there is none."""
        return next((option for option in self.options if option.name == name), None)

    def slots_of(self, options: Options) -> int:
        """Numbers kept for each trainable one; the exponential mean of weights included."""
        given = {**self.defaults, **options}
        return self.slots(given) + bool(given["use_ema"])


def _learning_rate(default: float = 0.001) -> Option:
    return Option(
        name="learning_rate",
        kind="float",
        default=default,
        minimum=0,
        help="The first thing to try other values of: ten times less, ten times more.",
    )


def _decay(name: str, default: float, advice: str, label: str = "") -> Option:
    return Option(
        name=name,
        kind="float",
        default=default,
        minimum=0,
        below=1,
        label=label,
        help=advice,
        group="Moments",
    )


def _betas(second: float = 0.999) -> tuple[Option, Option]:
    return (
        _decay("beta_1", 0.9, "How much of the past mean of gradients stays.", "Beta 1"),
        _decay("beta_2", second, "How much of the past mean of squares stays.", "Beta 2"),
    )


def _number(
    name: str, default: float, advice: str, *, group: str = "", minimum: float | None = 0
) -> Option:
    return Option(
        name=name, kind="float", default=default, minimum=minimum, help=advice, group=group
    )


def _flag(name: str, advice: str, *, label: str = "", group: str = "") -> Option:
    return Option(name=name, kind="flag", default=False, label=label, help=advice, group=group)


_EPSILON = _number("epsilon", 1e-07, "Keeps divisions from going wrong.", group="Moments")
_AMSGRAD = _flag("amsgrad", "Keeps the largest mean of squares.", label="AMSGrad", group="Moments")


def _limit(name: str, label: str, advice: str) -> Option:
    return Option(
        name=name,
        kind="float",
        above=0,
        optional=True,
        none_text="no limit",
        label=label,
        help=advice,
        group="Limits on gradients",
    )


def _weight_decay(default: float | None = None) -> Option:
    return Option(
        name="weight_decay",
        kind="float",
        default=default,
        minimum=0,
        optional=True,
        none_text="none",
        help="Makes weights a little smaller at every step; 0.004 is common with AdamW.",
    )


_COMMON = (
    _limit("clipnorm", "Largest norm of each", "Shortens the gradient of each weight array."),
    _limit("global_clipnorm", "Largest norm of all", "Shortens all gradients together; try 1."),
    _limit("clipvalue", "Largest value", "Cuts off each number of the gradient."),
    Option(
        name="use_ema",
        kind="flag",
        default=False,
        label="Mean of the weights",
        group="Mean of the weights",
        help="Keeps an exponential mean of the weights; one more copy of them.",
    ),
    Option(
        name="ema_momentum",
        kind="float",
        default=0.99,
        minimum=0,
        maximum=1,
        label="Momentum of the mean",
        group="Mean of the weights",
        help="How slowly the mean follows.",
    ),
)


def _kind(
    name: str,
    sentence: str,
    slots: Callable[[Options], int],
    *options: Option,
    learning_rate: float = 0.001,
    weight_decay: float | None = None,
) -> OptimizerKind:
    return OptimizerKind(
        name=name,
        sentence=sentence,
        slots=slots,
        options=(
            _learning_rate(learning_rate),
            *options,
            _weight_decay(weight_decay),
            *_COMMON,
        ),
    )


def _adam_slots(options: Options) -> int:
    return 2 + bool(options["amsgrad"])


OPTIMIZERS: Mapping[str, OptimizerKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            _kind(
                "Adam",
                "A good first choice.",
                _adam_slots,
                *_betas(),
                _EPSILON,
                _AMSGRAD,
            ),
            _kind(
                "AdamW",
                "Adam with weight decay, for large networks.",
                _adam_slots,
                *_betas(),
                _EPSILON,
                _AMSGRAD,
                weight_decay=0.004,
            ),
            _kind(
                "SGD",
                "Keeps no state, so averaging sends little; momentum 0.9 helps.",
                lambda options: int(options["momentum"] != 0),
                Option(
                    name="momentum",
                    kind="float",
                    default=0.0,
                    minimum=0,
                    maximum=1,
                    help="How much of the last step goes on; 0.9 is common.",
                ),
                _flag("nesterov", "Looks a step ahead; with momentum."),
                learning_rate=0.01,
            ),
            _kind(
                "RMSprop",
                "For recurrent networks.",
                lambda options: 1 + (options["momentum"] > 0) + bool(options["centered"]),
                _decay("rho", 0.9, "How much of the past mean of squares stays."),
                _number("momentum", 0.0, "How much of the last step goes on.", group="Moments"),
                _EPSILON,
                _flag("centered", "Divides by the deviation instead.", group="Moments"),
            ),
            _kind(
                "Adagrad",
                "For sparse features; its steps become ever smaller.",
                lambda options: 1,
                _number("initial_accumulator_value", 0.1, "Where the sum of squares begins."),
                _EPSILON,
            ),
            _kind(
                "Adadelta",
                "Finds its own step sizes; use the learning rate 1.",
                lambda options: 2,
                _decay("rho", 0.95, "How much of the past means stays."),
                _EPSILON,
            ),
            _kind(
                "Adamax",
                "Adam with the largest gradient in place of the mean of squares.",
                lambda options: 2,
                *_betas(),
                _EPSILON,
            ),
            _kind(
                "Nadam",
                "Adam with Nesterov's momentum.",
                lambda options: 2,
                *_betas(),
                _EPSILON,
            ),
            _kind(
                "Ftrl",
                "For wide, sparse, linear models.",
                lambda options: 2,
                Option(
                    name="learning_rate_power",
                    kind="float",
                    default=-0.5,
                    maximum=0,
                    help="How the learning rate falls; 0 keeps it.",
                ),
                _number("initial_accumulator_value", 0.1, "Where the sum of squares begins."),
                _number("l1_regularization_strength", 0.0, "L1 penalty."),
                _number("l2_regularization_strength", 0.0, "L2 penalty."),
                _number("l2_shrinkage_regularization_strength", 0.0, "L2 penalty on the gradient."),
                _number("beta", 0.0, "Added to the learning rate's divisor."),
            ),
            _kind(
                "Lion",
                "Keeps half of Adam's state; a learning rate of 1e-4 or less.",
                lambda options: 1,
                *_betas(0.99),
            ),
        )
    }
)
