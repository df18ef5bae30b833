"""Options of the classes of Keras, as their signatures tell them, with the help of the palette."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option

from .palette import CHOICES, STARTS, help_for

# Arguments that are set elsewhere, or that no plain value can hold.
NOT_OPTIONS = {
    *("self", "name", "dtype", "trainable", "seed", "kwargs", "args", "weights", "layer"),
    *("backward_layer", "quantization_config", "gptq_unpacked_column_size", "activity_regularizer"),
    *(
        "loss_scale_factor",
        "gradient_accumulation_steps",
        "return_state",
        "stateful",
        "cell",
        "attention_axes",
    ),
}
# Fractions and decays, whose bounds no signature tells and Keras does not always check.
_FRACTIONS = ("dropout", "recurrent_dropout")
_DECAYS = ("beta_1", "beta_2", "adam_beta_1", "adam_beta_2", "rho", "ema_momentum")
_FURTHER = "Further options"
_WEIGHTS = "Weights"
_GROUPS = {
    **dict.fromkeys(("go_backwards", "recurrent_activation", "epsilon", "axis"), _FURTHER),
    "groups": _FURTHER,
    "use_bias": _WEIGHTS,
    **dict.fromkeys(("beta_1", "beta_2", "rho", "amsgrad", "centered"), "Moments"),
    **dict.fromkeys(("clipnorm", "global_clipnorm", "clipvalue"), "Limits on gradients"),
    **dict.fromkeys(("use_ema", "ema_momentum", "ema_overwrite_frequency"), "Mean of the weights"),
}
SIZES = {
    *("kernel_size", "strides", "pool_size", "dilation_rate", "size", "padding", "cropping"),
    "output_size",
}


def arguments_of(made_by: Any) -> Iterator[tuple[str, Any, bool]]:
    """Name, default and whether one is missing, of each argument of a class."""
    for name, parameter in inspect.signature(made_by.__init__).parameters.items():
        plain = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if plain and name != "self":
            missing = parameter.default is parameter.empty
            yield name, None if missing else parameter.default, missing


def options_of(kind: str, name: str, default: Any, is_required: bool) -> Iterator[Option]:
    """What a form asks for one argument."""
    weight, _, what = name.rpartition("_")
    if what == "regularizer" and weight:
        for penalty in ("l1", "l2"):
            yield _penalty(weight, penalty)
    elif what == "constraint" and weight:
        yield Option(
            name=f"{weight}_max_norm",
            kind="float",
            above=0,
            optional=True,
            none_text="no limit",
            label=f"{weight.capitalize()} largest norm",
            group=_WEIGHTS,
            help=help_for("", "max_norm").advice,
        )
    elif what == "initializer" and weight:
        names = tuple(initializer_names())
        usual = {"uniform": "random_uniform"}.get(str(default), snake_case(str(default)))
        yield Option(
            name=name,
            kind="choice",
            default=usual,
            choices=tuple(dict.fromkeys([*names, usual])),
            group=_WEIGHTS,
            help=help_for(kind, name).advice,
        )
    else:
        yield _option(kind, name, STARTS.get(name) if is_required else default, is_required)


def _penalty(weight: str, penalty: str) -> Option:
    return Option(
        name=f"{weight}_{penalty}",
        kind="float",
        default=0.0,
        minimum=0,
        label=f"{weight.capitalize()} {penalty.upper()} penalty",
        group=_WEIGHTS,
        help=help_for("", penalty).advice,
    )


def _option(kind: str, name: str, default: Any, is_required: bool) -> Option:
    text = help_for(kind, name)
    common: dict[str, Any] = {
        "name": name,
        "label": text.label,
        "help": text.advice,
        "group": _GROUPS.get(name, "" if text.advice or is_required else _FURTHER),
    }
    if name.endswith("activation"):
        choices = tuple(dict.fromkeys([*activation_names(), default or "linear"]))
        return Option(kind="choice", default=default or "linear", choices=choices, **common)
    choices = CHOICES.get(f"{kind}.{name}") or CHOICES.get(name)
    if choices and (isinstance(default, str) or default is None):
        is_open = default is None
        return Option(kind="choice", default=default, choices=choices, optional=is_open, **common)
    optional = default is None and not is_required
    if text.kind == "list":
        return ListOption(kind="ints", default=default, optional=optional, **common)
    given = text.kind if text.kind and not isinstance(default, bool) else _kind_of(name, default)
    if not given:
        return ValueOption(kind="text", default=default, optional=True, **common)
    made: Any = given
    short = _one_of(default) if made == "ints" else default
    if name in _FRACTIONS:
        common |= {"minimum": 0, "maximum": 1}
    elif name in _DECAYS:
        common |= {"minimum": 0, "below": 1}
    return Option(kind=made, default=short, optional=optional, none_text=text.none_text, **common)


def _kind_of(name: str, default: Any) -> str:
    """The kind of an option, as its default tells it; empty: any value."""
    match default:
        case bool():
            return "flag"
        case int() | tuple() | list() if name in SIZES:
            return "ints"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "text"
        case _:
            return ""


def _one_of(default: Any) -> Any:
    numbers = list(flat(default)) if isinstance(default, list | tuple) else [default]
    return numbers[0] if len(set(numbers)) == 1 else list(default)


def flat(value: Any) -> Iterator[Any]:
    """The numbers in nested lists."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from flat(inner)
    else:
        yield value


def snake_case(kind: str) -> str:
    """The class' name as Keras makes a layer's name of it.

    Example:
        >>> snake_case("Conv2DTranspose"), snake_case("LSTM"), snake_case("PReLU")
        ('conv2d_transpose', 'lstm', 'p_re_lu')
    """
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", kind.rpartition(">")[2])
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()


@cache
def initializer_names() -> Mapping[str, str]:
    """Keras' name of each initializer without arguments -> its class."""
    import keras

    found = {"glorot_uniform": "GlorotUniform", "he_normal": "HeNormal"}
    for name, made_by in vars(keras.initializers).items():
        is_kind = inspect.isclass(made_by) and made_by.__name__ == name
        if is_kind and not any(is_required for _, _, is_required in arguments_of(made_by)):
            found.setdefault(snake_case(name), name)
    for unusable in ("initializer", "stft", "stft_initializer"):
        found.pop(unusable, None)
    return found


@cache
def activation_names() -> tuple[str, ...]:
    """Keras' names of activations, common ones first."""
    import keras

    common = ("linear", "relu", "sigmoid", "softmax", "tanh", "elu", "selu", "gelu", "silu")
    found = [
        name
        for name, made in vars(keras.activations).items()
        if inspect.isfunction(made) and name not in ("get", "serialize", "deserialize")
    ]
    return tuple(dict.fromkeys([*common, *sorted(found)]))


class ListOption(Option):
    """Integers; also one of them is a list."""

    __slots__ = ()

    def parse(self, text: str) -> Any:
        """The list that a person typed.

        Raises:
            ConfigurationError: as `check`.
        """
        value = Option.parse(self, text)
        return [value] if isinstance(value, int) else None if value is None else list(value)


class ShapeOption(Option):
    """A shape of one example; an axis may be None: of any length.

    Example:
        >>> shape = ShapeOption(name="shape", kind="ints")
        >>> shape.parse("any, 28"), shape.text([None, 28])
        ([None, 28], 'any, 28')
    """

    __slots__ = ()

    @property
    def rule(self) -> str:
        """What the value must be, as the end of "`name` must be"."""
        return "the length of each axis, such as 28, 28, 1; `any` for an axis of any length"

    def parse(self, text: str) -> list[int | None]:
        """The shape that a person typed.

        Raises:
            ConfigurationError: as `check`.
        """
        parts = [part.strip() for part in text.strip("()[] ").replace("x", ",").split(",")]
        open_axis = {"any", "none", "?", "*", "null"}
        try:
            value: Any = [None if p.lower() in open_axis else int(p) for p in parts if p]
        except ValueError:
            value = text
        self.check(value)
        return value

    def text(self, value: Any) -> str:
        """What a form shows for `value`; `parse` reads it back."""
        axes = value if isinstance(value, list | tuple) else [value]
        return ", ".join("any" if n is None else str(n) for n in axes)

    def _fits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple) or not value:
            return False
        return all(n is None or (type(n) is int and n >= 1) for n in value)


class ValueOption(Option):
    """Any plain value, written as in Python; the class decides whether it is valid.

    Example:
        >>> option = ValueOption(name="value_range", kind="text", optional=True)
        >>> option.parse("(0, 255)"), option.parse("nearest"), option.parse("")
        ((0, 255), 'nearest', None)
    """

    __slots__ = ()

    @property
    def rule(self) -> str:
        """What the value must be, as the end of "`name` must be"."""
        return "a number, text, True, False, None, or a list of these"

    def parse(self, text: str) -> Any:
        """The value that a person typed.

        Raises:
            ConfigurationError: as `check`.
        """
        given = text.strip()
        try:
            value = ast.literal_eval(given) if given else None
        except (ValueError, SyntaxError, TypeError):
            value = given
        except (MemoryError, RecursionError) as error:
            raise ConfigurationError(
                f"`{self.name}` must be {self.rule}. Received: {given!r:.80}."
            ) from error
        self.check(value)
        return value

    def text(self, value: Any) -> str:
        """What a form shows for `value`; `parse` reads it back."""
        return "" if value is None else value if isinstance(value, str) else repr(value)

    def _fits(self, value: Any) -> bool:
        if isinstance(value, list | tuple):
            return all(map(self._fits, value))
        return value is None or isinstance(value, bool | int | float | str)
