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
    *("Wrapper", "Lambda", "InputLayer", "TFSMLayer", "FlaxLayer", "JaxLayer"),
    *("TorchModuleWrapper", "RNN", "StackedRNNCells", "LSTMCell", "GRUCell", "SimpleRNNCell"),
    *("SpectralNormalization", "Pipeline", "StringLookup", "IntegerLookup", "TextVectorization"),
    *("RandomApply",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One class of Keras, or of the user.

    Attributes:
        name: the class in Keras, or the name under which a class of the user is registered.
        sentence: what it does, or when to choose it; empty if the palette has no entry.
        options: in the order of the class' arguments.
        made_by: the class itself.
        required: names of the options without a default.
    """

    name: str
    sentence: str = ""
    options: tuple[Option, ...] = ()
    made_by: Any = None
    required: tuple[str, ...] = ()

    @property
    def defaults(self) -> dict[str, Any]:
        """The value of each option that is not given; what a form begins with."""
        return {option.name: option.default for option in self.options}

    def option(self, name: str) -> Option | None:
        """The option of that name; None: there is none."""
        return next((option for option in self.options if option.name == name), None)

    def tidy(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options without those that equal Keras' defaults; equal sizes as one integer."""
        defaults = self.defaults
        short = {name: self._short(name, value) for name, value in options.items()}
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
        rank = next((int(letter) for letter in self.name if letter.isdigit()), 2)
        numbers = list(flat(value))
        is_one = len(numbers) in (rank, 2 * rank) and len(set(numbers)) == 1
        return numbers[0] if is_one and self.option(name) is not None else value


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerKind(Kind):
    """One class of optimizers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerKind(Kind):
    """One class of layers.

    Attributes:
        group: where a list of layers shows it.
        takes: how many inputs.
        least: how many it needs, if it takes several.
        most: how many it may have, if it takes several; None: any number.
        separately: whether several inputs are arguments of their own, not a list.
        inner: the class that it wraps, or the name of the option that says which.
        outer: with `inner`: names of the options that are the wrapper's own.
        seeded_by: options that bring chance into training unless they are 0; None: the class has
            no seed.
    """

    group: Group
    takes: Takes = "one"
    least: int = 2
    most: int | None = None
    separately: bool = False
    inner: str | None = None
    outer: tuple[str, ...] = ()
    seeded_by: tuple[str, ...] | None = None

    @property
    def starts(self) -> dict[str, Any]:
        """Values for the options without a default, as a new layer has them."""
        return {name: STARTS[name] for name in self.required if name in STARTS}


def is_loaded() -> bool:
    """Whether Keras is imported, so that nothing here has to wait for it."""
    keras = sys.modules.get("keras")
    return keras is not None and not getattr(keras.__spec__, "_initializing", False)


def load() -> None:
    """Import Keras.

    Raises:
        Whatever importing it raises; `load_problem` tells it from then on.
    """
    try:
        import keras  # pyright: ignore[reportUnusedImport]  # noqa: F401
    except Exception as error:
        _problems[:] = [f"Keras cannot be loaded: {error}."]
        raise
    _problems.clear()


_problems: list[str] = []  # of the last attempt to load Keras


def load_problem() -> str | None:
    """Why Keras could not be loaded, in one sentence; None: it could, or nobody has tried."""
    return next(iter(_problems), None)


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
    registered = _registered("Loss" if what == "losses" else "Metric", functions=True)
    return (*_keras_names(what), *registered)


@cache
def _keras_names(what: Literal["losses", "metrics"]) -> tuple[str, ...]:
    import keras

    module = getattr(keras, what)
    base = keras.losses.Loss if what == "losses" else keras.metrics.Metric
    found = {
        _accepted(module, snake_case(name)) or _accepted(module, name)
        for name, made_by in _classes(module, base).items()
        if not any(is_required for _, _, is_required in arguments_of(made_by))
    }
    return tuple(sorted(found - {""}))


def _accepted(module: Any, name: str) -> str:
    try:
        module.get(name)
    except (ValueError, TypeError):
        return ""
    return name


def _classes(module: Any, base: type[Any]) -> dict[str, Any]:
    """The classes of a module that are derived from `base`, by name."""
    return {
        name: made_by
        for name, made_by in vars(module).items()
        if inspect.isclass(made_by) and issubclass(made_by, base) and made_by is not base
    }


# --- reading Keras


@cache
def _keras_layers() -> Mapping[str, LayerKind]:
    import keras

    found = {
        name: _layer_kind(name, made_by)
        for name, made_by in _classes(keras.layers, keras.layers.Layer).items()
        # Not another name of the same class.
        if (made_by.__name__ == name or not hasattr(keras.layers, made_by.__name__))
        and name not in _NOT_OFFERED
    }
    found["Input"] = _input_kind()
    order = [name for kinds in PALETTE.values() for name in kinds if name in found]
    return {name: found[name] for name in dict.fromkeys([*order, *sorted(found)])}


@cache
def _keras_optimizers() -> tuple[OptimizerKind, ...]:
    import keras

    found = _classes(keras.optimizers, keras.optimizers.Optimizer)
    order = dict.fromkeys([*OPTIMIZER_SENTENCES, *sorted(found)])
    wraps = {"LossScaleOptimizer", "MultiOptimizer"}
    return tuple(_optimizer_kind(n, found[n]) for n in order if n in found and n not in wraps)


def _registered(
    base: Literal["Layer", "Optimizer", "Loss", "Metric"], *, functions: bool = False
) -> dict[str, Any]:
    """What the user registered by `keras.saving.register_keras_serializable`."""
    import keras

    kinds = {
        "Layer": keras.layers.Layer,
        "Optimizer": keras.optimizers.Optimizer,
        "Loss": keras.losses.Loss,
        "Metric": keras.metrics.Metric,
    }
    return {
        name: made
        for name, made in keras.saving.get_custom_objects().items()
        if (functions and inspect.isfunction(made))
        or (
            inspect.isclass(made)
            and issubclass(made, kinds[base])
            and not issubclass(made, keras.Model)
        )
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
        replace(option, minimum=0)
        if option.kind == "float" and (option.default is None or option.default >= 0)
        else option
        for argument in arguments_of(made_by)
        if argument[0] not in NOT_OPTIONS
        for option in options_of(name, *argument)
    ]
    return OptimizerKind(
        name=name,
        sentence=OPTIMIZER_SENTENCES.get(name, ""),
        options=tuple(options),
        made_by=made_by,
    )
