"""Options of Keras classes: kinds and defaults from signatures, help from the palette."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option, OptionKind

from .palette import CHOICES, RARE, STARTS, help_for

# Arguments that are set elsewhere, or that are not plain values.
NOT_OPTIONS = {
    *("self", "name", "dtype", "trainable", "seed", "kwargs", "args", "weights", "layer"),
    *("backward_layer", "quantization_config", "gptq_unpacked_column_size", "activity_regularizer"),
    *("loss_scale_factor", "gradient_accumulation_steps", "return_state", "stateful", "cell"),
    "attention_axes",
}
# Options for the factors of regularizers and constraints, such as `kernel_l2`.
FACTORS = {"regularizer": ("l1", "l2"), "constraint": ("max_norm",)}
_SIZES = ("kernel_size", "strides", "pool_size", "dilation_rate", "size", "output_size", "axes")
_KINDS: Mapping[type, OptionKind] = {bool: "flag", int: "int", float: "float", str: "text"}
_FURTHER = "Further options"
_COMMON_ACTIVATIONS = (
    *("linear", "relu", "sigmoid", "softmax", "tanh", "elu", "selu", "gelu", "silu"),
)


def arguments_of(made_by: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name, default, is required) for each argument of a class."""
    for name, parameter in inspect.signature(made_by.__init__).parameters.items():
        plain = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if plain and name != "self":
            missing = parameter.default is parameter.empty
            yield name, None if missing else parameter.default, missing


def options_of(kind: str, name: str, default: Any, is_required: bool) -> Iterator[Option]:
    """Yield the options for one argument."""
    weight, _, what = name.rpartition("_")
    if weight and what in FACTORS:
        for factor in FACTORS[what]:
            yield Option(
                name=f"{weight}_{factor}",
                kind="float",
                optional=True,
                none_text="None",
                help=help_for(kind, factor),
                group=_FURTHER,
            )
    elif is_required:
        yield replace(option_of(kind, name, STARTS.get(name)), group="")
    else:
        yield option_of(kind, name, default)


def option_of(kind: str, name: str, default: Any) -> Option:
    """An option of a class; its default determines its kind."""
    advice = help_for(kind, name)
    group = "" if advice and name not in RARE else _FURTHER
    if name.endswith("activation"):
        default = default or "linear"
    common: dict[str, Any] = {"name": name, "help": advice, "none_text": "None", "group": group}
    choices = _choices(kind, name) if isinstance(default, str | None) else ()
    if choices:
        choices = tuple(dict.fromkeys([*choices, *([default] if default else [])]))
        common |= {"choices": choices, "optional": default is None}
        return Option(kind="choice", default=default, **common)
    if name in _SIZES and default is not None:
        is_same = isinstance(default, tuple | list) and len({*default}) == 1
        return Option(kind="ints", default=default[0] if is_same else default, **common)
    if type(default) not in _KINDS:
        return ValueOption(kind="text", default=default, optional=True, **common)
    return Option(kind=_KINDS[type(default)], default=default, **common)


def _choices(kind: str, name: str) -> tuple[str, ...]:
    if name.endswith("_initializer"):
        return initializer_names()
    if name.endswith("activation"):
        return activation_names()
    return CHOICES.get(f"{kind}.{name}", CHOICES.get(name, ()))


def snake_case(kind: str) -> str:
    """The class name in snake case, as in Keras' default layer names."""
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", kind.rpartition(">")[2])
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()


@cache
def initializer_names() -> tuple[str, ...]:
    """Names of Keras' initializers without required arguments, common ones first."""
    import keras

    found = (
        name
        for name, made_by in vars(keras.initializers).items()
        if name.islower() and inspect.isclass(made_by) and made_by is not keras.Initializer
        if not any(is_required for _, _, is_required in arguments_of(made_by))
    )
    return tuple(dict.fromkeys(["glorot_uniform", "he_normal", *found]))


@cache
def activation_names() -> tuple[str, ...]:
    """Names of Keras' activations, common ones first."""
    import keras

    found = [
        name
        for name, made in vars(keras.activations).items()
        if inspect.isfunction(made) and name not in ("get", "serialize", "deserialize")
    ]
    return tuple(dict.fromkeys([*_COMMON_ACTIVATIONS, *sorted(found)]))


class ValueOption(Option):
    """An option for any plain value in Python syntax; Keras validates it.

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
        """Parse `text`."""
        value: Any = text.strip()
        try:
            value = ast.literal_eval(self._source(value)) if value else None
        except (ValueError, SyntaxError, TypeError):
            pass
        except (MemoryError, RecursionError) as error:
            raise ConfigurationError(
                f"`{self.name}` must be {self.rule}. Received: {value!r:.80}."
            ) from error
        self.check(value)
        return value

    def text(self, value: Any) -> str:
        """What a form shows for `value`; `parse` reads it back."""
        return "" if value is None else value if isinstance(value, str) else repr(value)

    def _source(self, text: str) -> str:
        return text

    def _fits(self, value: Any) -> bool:
        if isinstance(value, list | tuple):
            return all(map(self._fits, value))
        return value is None or isinstance(value, bool | int | float | str)


class ShapeOption(ValueOption):
    """An option for the shape of one example; None stands for an axis of any length.

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

    def text(self, value: Any) -> str:
        """What a form shows for `value`; `parse` reads it back."""
        axes = value if isinstance(value, list | tuple) else [value]
        return ", ".join("any" if n is None else str(n) for n in axes)

    def _source(self, text: str) -> str:
        return f"[{text.strip('()[] ').replace('any', 'None')}]"

    def _fits(self, value: Any) -> bool:
        is_list = isinstance(value, list | tuple) and bool(value)
        return is_list and all(n is None or (type(n) is int and n >= 1) for n in value)
