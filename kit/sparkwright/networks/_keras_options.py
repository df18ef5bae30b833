"""Options of Keras classes: kinds and defaults from signatures, help from the palette."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option

from .palette import CHOICES, STARTS, help_for

# Arguments that are set elsewhere, or that are not plain values.
NOT_OPTIONS = {
    *("self", "name", "dtype", "trainable", "seed", "kwargs", "args", "weights", "layer"),
    *("backward_layer", "quantization_config", "gptq_unpacked_column_size", "activity_regularizer"),
    *("loss_scale_factor", "gradient_accumulation_steps", "return_state", "stateful", "cell"),
    "attention_axes",
}
# Bounds of fractions and decay rates, which Keras does not always check.
_BOUNDS: Mapping[str, Any] = {
    name: {"minimum": 0, bound: 1}
    for bound, names in (
        ("maximum", ("dropout", "recurrent_dropout")),
        ("below", ("beta_1", "beta_2", "adam_beta_1", "adam_beta_2", "rho", "ema_momentum")),
    )
    for name in names
}
_FURTHER = "Further options"
_WEIGHTS = "Weights"
_GROUPS = {
    **dict.fromkeys(("go_backwards", "recurrent_activation", "epsilon", "axis"), _FURTHER),
    "groups": _FURTHER,
    "use_bias": _WEIGHTS,
    **dict.fromkeys(("beta_1", "beta_2", "rho", "amsgrad", "centered"), "Moments"),
    **dict.fromkeys(("clipnorm", "global_clipnorm", "clipvalue"), "Gradient clipping"),
    **dict.fromkeys(("use_ema", "ema_momentum", "ema_overwrite_frequency"), "Moving average"),
}
SIZES = {
    *("kernel_size", "strides", "pool_size", "dilation_rate", "size", "padding", "cropping"),
    "output_size",
}
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
    if what == "regularizer" and weight:
        for penalty in ("l1", "l2"):
            yield Option(
                name=f"{weight}_{penalty}",
                kind="float",
                default=0.0,
                minimum=0,
                label=f"{weight.capitalize()} {penalty.upper()} penalty",
                group=_WEIGHTS,
                help=help_for("", penalty).advice,
            )
    elif what == "constraint" and weight:
        yield Option(
            name=f"{weight}_max_norm",
            kind="float",
            above=0,
            optional=True,
            none_text="no limit",
            label=f"{weight.capitalize()} maximum norm",
            group=_WEIGHTS,
            help=help_for("", "max_norm").advice,
        )
    elif what == "initializer" and weight:
        usual = {"uniform": "random_uniform"}.get(str(default), snake_case(str(default)))
        choices = (*initializer_names(), usual)
        yield choice_option(kind, name, usual, choices, group=_WEIGHTS)
    else:
        yield _option(kind, name, STARTS.get(name) if is_required else default, is_required)


def choice_option(
    kind: str, name: str, default: Any, choices: tuple[str, ...] = (), *, group: str = ""
) -> Option:
    """An option with fixed choices; by default the palette's choices for this name."""
    text = help_for(kind, name)
    return Option(
        name=name,
        kind="choice",
        default=default,
        choices=tuple(dict.fromkeys(choices or CHOICES.get(f"{kind}.{name}") or CHOICES[name])),
        optional=default is None,
        label=text.label,
        help=text.advice,
        group=group,
    )


def _option(kind: str, name: str, default: Any, is_required: bool) -> Option:
    text = help_for(kind, name)
    group = _GROUPS.get(name, "" if text.advice or is_required else _FURTHER)
    if name.endswith("activation"):
        default = default or "linear"
        return choice_option(kind, name, default, (*activation_names(), default), group=group)
    if (name in CHOICES or f"{kind}.{name}" in CHOICES) and isinstance(default, str | None):
        return choice_option(kind, name, default, group=group)
    given: Any = _kind_of(name, default)
    if text.kind and not isinstance(default, bool):
        given = text.kind
    common: dict[str, Any] = {"name": name, "label": text.label, "help": text.advice}
    if not given:
        return ValueOption(kind="text", default=default, optional=True, group=group, **common)
    numbers = list(flat(default))
    return Option(
        kind=given,
        default=numbers[0] if given == "ints" and len(set(numbers)) == 1 else default,
        optional=default is None and not is_required,
        none_text=text.none_text,
        group=group,
        **common,
        **_BOUNDS.get(name, {}),
    )


def _kind_of(name: str, default: Any) -> str:
    """The kind of an option, from its default; empty: any value."""
    if name in SIZES and isinstance(default, int | tuple | list):
        return "ints"
    return {bool: "flag", int: "int", float: "float", str: "text"}.get(type(default), "")


def flat(value: Any) -> Iterator[Any]:
    """Yield the items of nested lists."""
    if isinstance(value, list | tuple):
        for inner in value:
            yield from flat(inner)
    else:
        yield value


def snake_case(kind: str) -> str:
    """The class name in snake case, as in Keras' default layer names."""
    spaced = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", kind.rpartition(">")[2])
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", spaced).lower()


@cache
def initializer_names() -> Mapping[str, str]:
    """Keras' name -> class name, of each initializer without required arguments."""
    import keras

    found = {"glorot_uniform": "GlorotUniform", "he_normal": "HeNormal"}
    for name, made_by in vars(keras.initializers).items():
        is_kind = inspect.isclass(made_by) and made_by.__name__ == name
        if is_kind and not any(is_required for _, _, is_required in arguments_of(made_by)):
            found.setdefault(snake_case(name), name)
    unusable = ("initializer", "stft", "stft_initializer")
    return {name: made_by for name, made_by in found.items() if name not in unusable}


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
        """Parse `text`.

        Raises:
            ConfigurationError: if the value is invalid.
        """
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
        axes = re.sub(r"\b(any|none|null)\b|[?*]", "None", text.strip("()[] "), flags=re.IGNORECASE)
        return f"[{axes.replace('x', ',')}]"

    def _fits(self, value: Any) -> bool:
        is_list = isinstance(value, list | tuple) and bool(value)
        return is_list and all(n is None or (type(n) is int and n >= 1) for n in value)


def shape_option() -> Option:
    """The `shape` option of an Input."""
    advice = help_for("Input", "shape").advice
    return ShapeOption(name="shape", kind="ints", default=STARTS["shape"], help=advice)
