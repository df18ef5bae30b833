"""Layers and optimizers of the installed Keras, and registered ones: options from signatures.

Everything here loads Keras when it is called, which takes seconds the first time; `is_loaded` and
`load` let an interface do that beside its thread.
"""

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from sparkwright.options import Option

from ._keras_options import (
    NOT_OPTIONS,
    SIZES,
    ShapeOption,
    arguments_of,
    flat,
    options_of,
    snake_case,
)
from .palette import (
    CHOICES,
    OPTIMIZER_SENTENCES,
    PALETTE,
    STARTS,
    Group,
    group_of,
    help_for,
    sentence_of,
)

Takes = Literal["one", "several", "none"]

# Layers whose arguments no plain value can hold (functions, other layers, files), abstract classes,
# and layers whose state is learned before training.
_NOT_OFFERED = {
    *("Layer", "Wrapper", "Lambda", "InputLayer", "TFSMLayer", "FlaxLayer", "JaxLayer"),
    *("TorchModuleWrapper", "RNN", "StackedRNNCells", "LSTMCell", "GRUCell", "SimpleRNNCell"),
    *("SpectralNormalization", "Pipeline", "StringLookup", "IntegerLookup", "TextVectorization"),
    *("RandomApply",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerKind:
    """One class of layers.

    Attributes:
        name: the class in Keras, or the name under which a layer of the user is registered.
        group: where a list of layers shows it.
        sentence: what it does; empty if the palette has no entry.
        options: in the order of the class' arguments.
        takes: how many inputs.
        least: how many it needs, if it takes several.
        most: how many it may have, if it takes several; None: any number.
        required: names of the options without a default.
        separately: whether several inputs are arguments of their own, not a list.
        inner: the class that it wraps, or the name of the option that says which.
        outer: with `inner`: names of the options that are the wrapper's own.
        made_by: the class itself.
        seeded_by: options that bring chance into training unless they are 0; None: the class has
            no seed.
    """

    name: str
    group: Group
    sentence: str = ""
    options: tuple[Option, ...] = ()
    takes: Takes = "one"
    least: int = 2
    most: int | None = None
    required: tuple[str, ...] = ()
    separately: bool = False
    inner: str | None = None
    outer: tuple[str, ...] = ()
    made_by: Any = None
    seeded_by: tuple[str, ...] | None = None

    @property
    def defaults(self) -> dict[str, Any]:
        """The value of each option that is not given; what a form begins with."""
        return {option.name: option.default for option in self.options}

    @property
    def starts(self) -> dict[str, Any]:
        """Values for the options without a default, as a new layer has them."""
        return {name: STARTS[name] for name in self.required if name in STARTS}

    def option(self, name: str) -> Option | None:
        """The option of that name; None: there is none."""
        return next((option for option in self.options if option.name == name), None)

    def tidy(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options without those that equal Keras' defaults; equal sizes as one integer."""
        short = {name: self._short(name, value) for name, value in options.items()}
        defaults = self.defaults
        return {
            name: value
            for name, value in short.items()
            if name in self.required
            or name not in defaults
            or value != defaults[name]
            or isinstance(value, bool) != isinstance(defaults[name], bool)
        }

    def _short(self, name: str, value: Any) -> Any:
        if name not in SIZES or not isinstance(value, list | tuple):
            return value
        option = self.option(name)
        rank = next((int(letter) for letter in self.name if letter.isdigit()), 2)
        numbers = list(flat(value))
        if option is None or len(numbers) not in (rank, 2 * rank) or len(set(numbers)) > 1:
            return value
        return numbers[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerKind:
    """One class of optimizers.

    Attributes:
        name: the class in Keras, or the name under which one of the user is registered.
        sentence: when to choose it; empty if the palette has no entry.
        options: in the order of the class' arguments.
        made_by: the class itself.
    """

    name: str
    sentence: str
    options: tuple[Option, ...]
    made_by: Any

    @property
    def defaults(self) -> dict[str, Any]:
        """The value of each option that is not given."""
        return {option.name: option.default for option in self.options}

    def option(self, name: str) -> Option | None:
        """The option of that name; None: there is none."""
        return next((option for option in self.options if option.name == name), None)

    def tidy(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options without those that equal Keras' defaults."""
        defaults = self.defaults
        return {
            name: value
            for name, value in options.items()
            if name not in defaults or value != defaults[name]
        }


def is_loaded() -> bool:
    """Whether Keras is imported, so that nothing here has to wait for it."""
    keras = sys.modules.get("keras")
    return keras is not None and not getattr(keras.__spec__, "_initializing", False)


def load() -> None:
    """Import Keras."""
    import keras  # pyright: ignore[reportUnusedImport]  # noqa: F401


def layer_kind(name: str) -> LayerKind | None:
    """The class of layers of that name; None: Keras has none, and none is registered.

    Example:
        >>> layer_kind("Dense").required
        ('units',)
    """
    kind = _keras_layers().get(name)
    if kind is None and (made_by := _registered("Layer").get(name)) is not None:
        kind = _layer_kind(name, made_by)
    return kind


def layer_kinds(group: Group | None = None) -> tuple[LayerKind, ...]:
    """The classes of layers of `group`; None: all, group by group, registered ones last.

    Example:
        >>> [kind.name for kind in layer_kinds("core")][:2]
        ['Input', 'Dense']
    """
    own = (_layer_kind(name, made_by) for name, made_by in _registered("Layer").items())
    kinds = (*_keras_layers().values(), *own)
    return tuple(kind for kind in kinds if group in (None, kind.group))


def optimizer_kind(name: str) -> OptimizerKind | None:
    """The class of optimizers of that name; None: there is none."""
    return next((kind for kind in optimizer_kinds() if kind.name == name), None)


def optimizer_kinds() -> tuple[OptimizerKind, ...]:
    """Every class of optimizers; common ones first, registered ones last."""
    own = (_optimizer_kind(name, made_by) for name, made_by in _registered("Optimizer").items())
    return (*_keras_optimizers(), *own)


def names_of(what: Literal["losses", "metrics"]) -> tuple[str, ...]:
    """Keras' names of the losses or metrics that need no argument; registered ones last."""
    import keras

    base = keras.losses.Loss if what == "losses" else keras.metrics.Metric
    own = keras.saving.get_custom_objects().items()
    registered = [
        name
        for name, made in own
        if inspect.isfunction(made) or (inspect.isclass(made) and issubclass(made, base))
    ]
    return (*_keras_names(what), *registered)


@cache
def _keras_names(what: Literal["losses", "metrics"]) -> tuple[str, ...]:
    import keras

    module = getattr(keras, what)
    base = keras.losses.Loss if what == "losses" else keras.metrics.Metric
    found: list[str] = []
    for name, made_by in vars(module).items():
        if not (inspect.isclass(made_by) and issubclass(made_by, base)) or made_by is base:
            continue
        known = _accepted(module, snake_case(name)) or _accepted(module, name)
        if known and not any(is_required for _, _, is_required in arguments_of(made_by)):
            found.append(known)
    return tuple(sorted(set(found)))


def _accepted(module: Any, name: str) -> str:
    try:
        module.get(name)
    except (ValueError, TypeError):
        return ""
    return name


# --- reading Keras


@cache
def _keras_layers() -> Mapping[str, LayerKind]:
    import keras

    found = {
        name: _layer_kind(name, made_by)
        for name, made_by in vars(keras.layers).items()
        if inspect.isclass(made_by)
        and issubclass(made_by, keras.layers.Layer)
        # Not another name of the same class.
        and (made_by.__name__ == name or not hasattr(keras.layers, made_by.__name__))
        and name not in _NOT_OFFERED
    }
    found["Input"] = _input_kind()
    order = [name for kinds in PALETTE.values() for name in kinds if name in found]
    return {name: found[name] for name in dict.fromkeys([*order, *sorted(found)])}


@cache
def _keras_optimizers() -> tuple[OptimizerKind, ...]:
    import keras

    base = keras.optimizers.Optimizer
    found = {
        name: made_by
        for name, made_by in vars(keras.optimizers).items()
        if inspect.isclass(made_by) and issubclass(made_by, base) and made_by is not base
    }
    order = dict.fromkeys([*OPTIMIZER_SENTENCES, *sorted(found)])
    wraps = {"LossScaleOptimizer", "MultiOptimizer"}
    return tuple(_optimizer_kind(n, found[n]) for n in order if n in found and n not in wraps)


def _registered(base: str) -> dict[str, Any]:
    """Classes of the user that `keras.saving.register_keras_serializable` knows."""
    import keras

    kind = keras.layers.Layer if base == "Layer" else keras.optimizers.Optimizer
    return {
        name: made_by
        for name, made_by in keras.saving.get_custom_objects().items()
        if inspect.isclass(made_by)
        and issubclass(made_by, kind)
        and not issubclass(made_by, keras.Model)
    }


def _layer_kind(name: str, made_by: Any) -> LayerKind:
    import keras

    arguments = [each for each in arguments_of(made_by) if each[0] not in NOT_OPTIONS]
    options = [option for argument in arguments for option in options_of(name, *argument)]
    given = {argument for argument, _, _ in arguments_of(made_by)}
    chance = ("rate", "stddev", "dropout", "recurrent_dropout")
    kind = LayerKind(
        name=name,
        group=group_of(name),
        sentence=sentence_of(name),
        options=tuple(options),
        required=tuple(argument for argument, _, missing in arguments if missing),
        made_by=made_by,
        seeded_by=tuple(n for n in chance if n in given) if "seed" in given else None,
    )
    if name == "Bidirectional":
        return _wrapping(kind, inner="cell", wrapped="SimpleRNN")
    if name == "TimeDistributed":
        return _wrapping(kind, inner="Dense", wrapped="Dense")
    if name in ("MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention"):
        return replace(kind, takes="several", least=1, most=3, separately=True)
    if name in ("Attention", "AdditiveAttention"):
        return replace(kind, takes="several", most=3)
    if issubclass(made_by, keras.layers.Add.__mro__[1]):
        return replace(kind, takes="several", most=2 if name in ("Subtract", "Dot") else None)
    if not made_by.__module__.startswith("keras."):
        return replace(kind, takes="several", least=1)
    return kind


def _wrapping(kind: LayerKind, *, inner: str, wrapped: str) -> LayerKind:
    import keras

    inside = _layer_kind(wrapped, getattr(keras.layers, wrapped))
    hidden = ("go_backwards", "unroll")
    options = [option for option in inside.options if option.name not in hidden]
    outer = tuple(option.name for option in kind.options)
    cell = Option(
        name="cell",
        kind="choice",
        default=STARTS["cell"],
        choices=CHOICES["cell"],
        help=help_for("", "cell").advice,
    )
    return replace(
        kind,
        options=(*([cell] if inner == "cell" else []), *options, *kind.options),
        required=(*(["cell"] if inner == "cell" else []), *inside.required),
        inner=inner,
        outer=outer,
        seeded_by=inside.seeded_by,
    )


def _input_kind() -> LayerKind:
    return LayerKind(
        name="Input",
        group="core",
        sentence=sentence_of("Input"),
        options=(
            ShapeOption(
                name="shape",
                kind="ints",
                default=STARTS["shape"],
                help=help_for("Input", "shape").advice,
            ),
            Option(
                name="dtype",
                kind="choice",
                default="float32",
                choices=CHOICES["dtype"],
                help=help_for("Input", "dtype").advice,
            ),
        ),
        takes="none",
        required=("shape",),
    )


def _optimizer_kind(name: str, made_by: Any) -> OptimizerKind:
    options = [
        option
        for argument in arguments_of(made_by)
        if argument[0] not in NOT_OPTIONS
        for option in options_of(name, *argument)
    ]
    bounded = [
        replace(option, minimum=0)
        if option.kind == "float" and (option.default is None or option.default >= 0)
        else option
        for option in options
    ]
    return OptimizerKind(
        name=name,
        sentence=OPTIMIZER_SENTENCES.get(name, ""),
        options=tuple(bounded),
        made_by=made_by,
    )
