"""Catalog of Keras and registered layers and optimizers, with options read from signatures.

Every function here except `is_loaded` and `load_problem` imports Keras, which takes seconds the
first time. An interface calls `load` on a background thread.
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
    ShapeOption,
    arguments_of,
    option_of,
    options_of,
    snake_case,
)
from .palette import OPTIMIZER_SENTENCES, PALETTE, STARTS, Group, group_of, help_for
from .training import OWN_METRICS

# Layers whose arguments are not plain values (functions, other layers, files), abstract classes,
# and layers that must be adapted before training.
_NOT_OFFERED = {
    *("Wrapper", "Lambda", "InputLayer", "TFSMLayer", "FlaxLayer", "JaxLayer"),
    *("TorchModuleWrapper", "RNN", "StackedRNNCells", "LSTMCell", "GRUCell", "SimpleRNNCell"),
    *("SpectralNormalization", "Pipeline", "StringLookup", "IntegerLookup", "TextVectorization"),
    *("RandomApply", "LossScaleOptimizer", "MultiOptimizer"),
}
_BASES = {"layers": "Layer", "optimizers": "Optimizer", "losses": "Loss", "metrics": "Metric"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A class of Keras, or a registered class of the user.

    Attributes:
        name: class name in Keras, or registered name of a user's class.
        sentence: first paragraph of a layer's docstring, or when to choose an optimizer.
        options: in the order of the constructor's arguments.
        made_by: the class; None for `keras.Input`.
        required: names of the options without a default.
    """

    name: str
    sentence: str = ""
    options: tuple[Option, ...] = ()
    made_by: Any = None
    required: tuple[str, ...] = ()

    @property
    def is_registered(self) -> bool:
        """Whether the class is the user's, not Keras' own."""
        return self.made_by is not None and not self.made_by.__module__.startswith("keras.")

    @property
    def defaults(self) -> dict[str, Any]:
        """Option name -> default value."""
        return {option.name: option.default for option in self.options}

    def option(self, name: str) -> Option | None:
        """The option with this name, or None."""
        return next((option for option in self.options if option.name == name), None)

    def tidy(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Drop options that equal their defaults; True differs from 1."""
        defaults = self.defaults
        return {
            name: value
            for name, value in options.items()
            if name in self.required
            or name not in defaults
            or (value, isinstance(value, bool))
            != (defaults[name], isinstance(defaults[name], bool))
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerKind(Kind):
    """A class of optimizers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerKind(Kind):
    """A class of layers.

    Attributes:
        group: group of the layer in a palette.
        takes: minimum and maximum number of inputs; None: no maximum.
        separately: whether inputs are passed as separate arguments instead of a list.
        inner: the wrapped class, or the name of the option that selects it; None for other layers.
        outer: for a wrapper, names of the wrapper's own options.
    """

    group: Group
    takes: tuple[int, int | None] = (1, 1)
    separately: bool = False
    inner: str | None = None
    outer: tuple[str, ...] = ()

    @property
    def starts(self) -> dict[str, Any]:
        """Initial values of a new layer's required options."""
        return {name: STARTS[name] for name in self.required if name in STARTS}


def is_loaded() -> bool:
    """Whether Keras is fully imported."""
    keras = sys.modules.get("keras")
    return keras is not None and not getattr(keras.__spec__, "_initializing", False)


def load() -> None:
    """Import Keras; if that fails, `load_problem` returns the reason."""
    try:
        import keras  # pyright: ignore[reportUnusedImport]  # noqa: F401
    except Exception as error:
        _problems[:] = [f"Keras cannot be loaded: {error}."]
        raise
    _problems.clear()


_problems: list[str] = []  # of the last attempt to load Keras


def load_problem() -> str | None:
    """Why the last `load` failed, in one sentence; None if it succeeded or was not called."""
    return next(iter(_problems), None)


def layer_kind(name: str) -> LayerKind | None:
    """The layer class with this name; None if Keras has none and none is registered.

    Example:
        >>> layer_kind("Dense").required
        ('units',)
    """
    found = _keras_layers().get(name)
    if found is None and (made_by := _registered("layers").get(name)) is not None:
        found = _layer_kind(name, made_by)
    return found


def layer_kinds(group: Group | None = None) -> tuple[LayerKind, ...]:
    """The layer classes of `group`; None: all classes by group, registered ones last.

    Example:
        >>> [kind.name for kind in layer_kinds("core")][:2]
        ['Input', 'Dense']
    """
    own = (_layer_kind(name, made_by) for name, made_by in _registered("layers").items())
    kinds = (*_keras_layers().values(), *own)
    return tuple(kind for kind in kinds if group in (None, kind.group))


def optimizer_kind(name: str) -> OptimizerKind | None:
    """The optimizer class with this name, or None."""
    return next((kind for kind in optimizer_kinds() if kind.name == name), None)


def optimizer_kinds() -> tuple[OptimizerKind, ...]:
    """All optimizer classes: common ones first, registered ones last."""
    own = (_optimizer_kind(name, made_by) for name, made_by in _registered("optimizers").items())
    return (*_keras_optimizers(), *own)


@cache
def _keras_optimizers() -> tuple[OptimizerKind, ...]:
    found = _classes("optimizers")
    order = dict.fromkeys([*OPTIMIZER_SENTENCES, *sorted(found)])
    return tuple(_optimizer_kind(name, found[name]) for name in order if name in found)


def names_of(what: Literal["losses", "metrics"]) -> tuple[str, ...]:
    """Keras' names of the losses or metrics without required arguments; registered ones last."""
    return (*_keras_names(what), *_registered(what))


@cache
def _keras_names(what: str) -> tuple[str, ...]:
    found = {
        next((known for known in (snake_case(name), name) if refusal(what, known) is None), "")
        for name, made_by in _classes(what).items()
        if not any(is_required for _, _, is_required in arguments_of(made_by))
    }
    return tuple(sorted(found - {""}))


def refusal(what: str, name: str) -> Exception | None:
    """The error that Keras raises for the name of a loss or metric; None if the name is valid."""
    import keras

    if name not in keras.saving.get_custom_objects() and name not in OWN_METRICS:
        try:
            getattr(keras, what).get(name)
        except (TypeError, ValueError) as error:
            return error
    return None


# --- reading Keras


def _classes(what: str) -> dict[str, Any]:
    """Name -> class, for the subclasses of the base class of a Keras module."""
    import keras

    module = getattr(keras, what)
    base = getattr(module, _BASES[what])
    return {
        name: made_by
        for name, made_by in vars(module).items()
        if inspect.isclass(made_by)
        and issubclass(made_by, base)
        and made_by is not base
        and name not in _NOT_OFFERED
    }


def _registered(what: str) -> dict[str, Any]:
    """Name -> object registered by `keras.saving.register_keras_serializable`."""
    import keras

    base = getattr(getattr(keras, what), _BASES[what])
    return {
        name: made
        for name, made in keras.saving.get_custom_objects().items()
        if (what in ("losses", "metrics") and inspect.isfunction(made))
        or (inspect.isclass(made) and issubclass(made, base) and not issubclass(made, keras.Model))
        if not name.startswith("sparkwright>")
    }


@cache
def _keras_layers() -> Mapping[str, LayerKind]:
    import keras

    found = {
        name: _layer_kind(name, made_by)
        for name, made_by in _classes("layers").items()
        # Skip aliases of a class.
        if made_by.__name__ == name or not hasattr(keras.layers, made_by.__name__)
    }
    found["Input"] = LayerKind(
        name="Input",
        group="core",
        sentence="Shape of one example, without the batch axis.",
        options=(
            ShapeOption(
                name="shape",
                kind="ints",
                default=STARTS["shape"],
                help=help_for("Input", "shape"),
            ),
            option_of("Input", "dtype", "float32"),
        ),
        takes=(0, 0),
        required=("shape",),
    )
    order = [name for kinds in PALETTE.values() for name in kinds if name in found]
    return {name: found[name] for name in dict.fromkeys([*order, *sorted(found)])}


def _options(name: str, made_by: Any) -> dict[str, Any]:
    """The fields of a `Kind` that its class determines."""
    arguments = [each for each in arguments_of(made_by) if each[0] not in NOT_OPTIONS]
    return {
        "name": name,
        "sentence": " ".join((inspect.getdoc(made_by) or "").partition("\n\n")[0].split()),
        "options": tuple(option for each in arguments for option in options_of(name, *each)),
        "required": tuple(argument for argument, _, is_required in arguments if is_required),
        "made_by": made_by,
    }


def _layer_kind(name: str, made_by: Any) -> LayerKind:
    import keras

    kind = LayerKind(group=group_of(name), **_options(name, made_by))
    if name == "Bidirectional":
        return _wrapping(kind, "SimpleRNN", option_of("", "cell", STARTS["cell"]))
    if name == "TimeDistributed":
        return _wrapping(kind, "Dense")
    if [*inspect.signature(made_by.call).parameters][1:3] == ["query", "value"]:
        return replace(kind, takes=(1, 3), separately=True)
    if name in ("Attention", "AdditiveAttention"):
        return replace(kind, takes=(2, 3))
    if issubclass(made_by, keras.layers.Add.__mro__[1]):
        return replace(kind, takes=(2, 2 if name in ("Subtract", "Dot") else None))
    return replace(kind, takes=(1, None)) if kind.is_registered else kind


def _wrapping(kind: LayerKind, wrapped: str, *cell: Option) -> LayerKind:
    """Add the options of the wrapped layer to a wrapper; `cell` is the option that selects it."""
    import keras

    inside = _layer_kind(wrapped, getattr(keras.layers, wrapped))
    options = [each for each in inside.options if each.name not in ("go_backwards", "unroll")]
    return replace(
        kind,
        options=(*cell, *options, *kind.options),
        required=(*(option.name for option in cell), *inside.required),
        inner=cell[0].name if cell else wrapped,
        outer=tuple(option.name for option in kind.options),
    )


def _optimizer_kind(name: str, made_by: Any) -> OptimizerKind:
    kind = OptimizerKind(**_options(name, made_by))
    return replace(kind, sentence=OPTIMIZER_SENTENCES.get(name, kind.sentence))
