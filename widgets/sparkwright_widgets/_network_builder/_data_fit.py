"""Mismatches between a network and the data, and their fixes. Pure."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from sparkwright.networks import (
    LOSSES,
    PRESETS,
    NetworkAnalysis,
    NetworkSpec,
    OutputSpec,
    Preset,
    defaults_for,
)
from sparkwright_widgets._format import counted

from ._fixes import Fix, accepted, inserted, loss_title, with_options, with_output
from ._html import shape_text

Shape = tuple[int | None, ...]

_SPARSE, _ONE_HOT = "sparse_categorical_crossentropy", "categorical_crossentropy"
_FLATTENING = ("Flatten", "GlobalAveragePooling1D", "GlobalAveragePooling2D")
# Layers that act on the last axis only; a flattening layer is inserted before the first of them.
_AT_EACH_PLACE = ("Dense", "Dropout", "Activation")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFacts:
    """Known facts about the data, by the name of the input or output.

    `features` and `labels` are shapes of one example; `classes` are numbers of classes.
    """

    features: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    labels: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    classes: Mapping[str, int] = field(default_factory=dict[str, int])

    def __hash__(self) -> int:
        """Hash the names only; mappings are not hashable, and `preset_for` is cached."""
        return hash((*sorted(self.features), *sorted(self.labels)))


class Misfit(NamedTuple):
    """A mismatch in a sentence, and its fixes, the best first."""

    sentence: str
    fixes: tuple[Fix, ...] = ()
    stops: bool = True  # whether training would fail


def misfits(spec: NetworkSpec, analysis: NetworkAnalysis, data: DataFacts) -> tuple[Misfit, ...]:
    """Compare the inputs of `spec` with the features, and its outputs with the labels.

    A single input matches a single feature regardless of their names; several are matched by
    name. Outputs and labels are matched in the same way. Fixes are offered only if the analysis
    accepts them and they solve the misfit; if there are none, presets that fit the data are
    offered. While Keras is loading, no fix is offered.
    """
    found = _compared(spec, analysis, data)
    if analysis.is_pending:
        return tuple(misfit._replace(fixes=()) for misfit in found)
    return tuple(_offering(spec, misfit, data) for misfit in found)


def preset_fixes(spec: NetworkSpec, data: DataFacts) -> tuple[Fix, ...]:
    """Up to two presets that fit the data, sorted by the task of the labels or of `spec`."""
    task = "classification" if data.classes else "regression" if data.labels else spec.task
    presets = sorted(PRESETS.values(), key=lambda preset: preset.task != task)
    return tuple(
        Fix(f"Use the preset “{preset.title}”", preset_for(preset, data))
        for preset in presets
        if fits(preset, data)
    )[:2]


def fits(preset: Preset, data: DataFacts) -> bool:
    """Whether a preset fits the data; False for presets with integer inputs, such as tokens."""
    spec = preset_for(preset, data)
    if not data.features or any("dtype" in layer.options for layer in spec.layers):
        return False
    return spec.analysis.ok and not _compared(spec, spec.analysis, data)


def _offering(spec: NetworkSpec, misfit: Misfit, data: DataFacts) -> Misfit:
    """The misfit with only the fixes that solve it."""

    def solves(changed: NetworkSpec) -> bool:
        left = _compared(changed, changed.analysis, data)
        return misfit.sentence not in [other.sentence for other in left]

    offered = accepted(([fix] for fix in misfit.fixes), solves)
    return misfit._replace(fixes=offered or preset_fixes(spec, data))


def _compared(spec: NetworkSpec, analysis: NetworkAnalysis, data: DataFacts) -> list[Misfit]:
    found = _inputs(spec, data.features) if data.features else []
    shapes = {row.name: row.output_shape for row in analysis.rows if row.enabled}
    is_only = len(spec.outputs) == len(data.labels) == 1
    for name, shape in data.labels.items():
        for output in spec.outputs:
            made = shapes.get(output.layer)
            if made is not None and (is_only or output.layer == name):
                misfit = _label(spec, output, made, shape, data.classes.get(name))
                found += [misfit] if misfit is not None else []
    return found


@lru_cache(64)  # runs several analyses, and is called at each key press
def preset_for(preset: Preset, data: DataFacts) -> NetworkSpec:
    """The network of a preset, adapted to the data where possible."""
    usual, parameters = preset.make(), inspect.signature(preset.make).parameters
    values = {name: shape[0] for name, shape in data.labels.items() if len(shape) == 1}
    facts = {"input_shape": data.features, "classes": data.classes, "values": values}
    known: dict[str, Any] = {
        name: next(iter(given.values()))
        for name, given in facts.items()
        if len(given) == 1 and name in parameters
    }
    try:
        fitted = preset.make(**known)
    except (ValueError, TypeError):  # such as a table's shape for a network of images
        return usual
    return fitted if known and fitted.analysis.ok else usual


def _inputs(spec: NetworkSpec, features: Mapping[str, Shape]) -> list[Misfit]:
    inputs = {x.name: x for x in spec.layers if x.kind == "Input" and x.enabled}
    pairs = {name: name for name in inputs}
    if len(inputs) == len(features) == 1:
        pairs = dict(zip(inputs, features, strict=True))
    missing = [name for name, feature in pairs.items() if feature not in features]
    if missing:
        return [
            Misfit(
                f"The data has no features for the input {', '.join(missing)}. Features: "
                f"{', '.join(features)}. Rename the inputs to match the features."
            )
        ]
    found: list[Misfit] = []
    for name, feature in pairs.items():
        shape, data = inputs[name].options.get("shape"), features[feature]
        taken = tuple(shape) if isinstance(shape, list | tuple) else None
        if taken is None or not _fits(taken, data):
            changed = with_options(spec, name, shape=list(data))
            sentence = (
                f"The input {name} has shape {shape_text(taken)}; each example of {feature} has "
                f"shape {shape_text(data)}."
            )
            fix = Fix(f"Use the data's shape: {shape_text(data)}", changed)
            found.append(Misfit(sentence, (fix,)))
    return found


def _label(
    spec: NetworkSpec, output: OutputSpec, made: Shape, shape: Shape, classes: int | None
) -> Misfit | None:
    """The mismatch between labels of shape `shape` and an output of shape `made`, if any."""
    if output.loss == _SPARSE:
        if 0 < len(made) == len(shape) and 1 not in (made[-1], shape[-1]):
            return Misfit(
                f"Each label has shape {shape_text(shape)}, one value per class; the "
                f"loss {_SPARSE} expects integer class indices.",
                (_loss_fix(spec, output, _ONE_HOT),),
            )
        if made and not any(_agree(label, made[:-1]) for label in (shape, _squeezed(shape))):
            return _places(spec, output, shape, made)
        units = made[-1] if made else None
        if classes is None or units in (None, classes):
            return None
        found = _units(spec, output, classes, f"The data has {classes} classes", made)
        return found._replace(stops=classes > (units or 0))  # more outputs only cost time
    kind = LOSSES.get(output.loss)
    is_yes_or_no = kind is not None and kind.labels in ("zeros and ones", "-1 and 1")
    if classes is not None and classes > 2 and is_yes_or_no and _squeezed(made) == ():
        return Misfit(
            f"The data has {classes} classes; one output with the loss {output.loss} "
            "distinguishes only two.",
            (_classifying(spec, output, classes, made),) if _has_units(spec, output) else (),
        )
    if output.loss == _ONE_HOT and len(shape) == len(made) - 1:
        return Misfit(
            f"Each label is one number; the loss {_ONE_HOT} expects one value per class.",
            (_loss_fix(spec, output, _SPARSE),),
        )
    if _squeezed(shape) == _squeezed(made) or None in (*shape, *made):
        return None
    if len(made) > 1 and len(shape) < len(made):
        return _places(spec, output, shape, made)
    what = f"A label has shape {shape_text(shape)}"
    found = _units(spec, output, shape[-1] if shape else 1, what, made)
    if classes is not None and len(made) == 1 and _has_units(spec, output):
        found = found._replace(fixes=(_classifying(spec, output, classes, made), *found.fixes))
    return found


def _places(spec: NetworkSpec, output: OutputSpec, shape: Shape, made: Shape) -> Misfit:
    """The output has a vector per position of an example, the labels do not."""
    label = f"A label has shape {shape_text(shape)}" if shape else "A label is one number"
    sentence = f"{label}, the output {output.layer} has shape {shape_text(made)}"
    found = _flattened(spec, output.layer) if len(shape) <= 1 < len(made) else None
    if found is None:
        return Misfit(f"{sentence}.")
    kind, changed = found
    return Misfit(
        f"{sentence}: one vector for each of {shape_text(made[:-1])} positions.",
        (Fix(f"Add {kind}", changed),),
    )


def _flattened(spec: NetworkSpec, output: str) -> tuple[str, NetworkSpec] | None:
    """The kind of a flattening layer before the last dense layers, and `spec` with it."""
    place = next((k for k, layer in enumerate(spec.layers) if layer.name == output), -1)
    if place < 0 or spec.layers[place].kind not in _AT_EACH_PLACE:
        return None
    while place and not spec.layers[place].inputs:
        if spec.layers[place - 1].kind not in _AT_EACH_PLACE:
            break
        place -= 1
    for kind in _FLATTENING:
        found = inserted(spec, place, kind)
        rows = found.analysis.rows  # other problems of the network are shown elsewhere
        shape = next((row.output_shape for row in rows if row.name == output), None)
        if shape is not None and len(shape) == 1:
            return kind, found
    return None


def _classifying(spec: NetworkSpec, output: OutputSpec, classes: int, made: Shape) -> Fix:
    """Use one unit per class, with the default activation, loss and metrics."""
    usual = defaults_for("classification", (classes,))
    changed = with_options(spec, output.layer, units=classes, activation=usual.activation)
    changed = with_output(changed, output, loss=usual.loss, metrics=usual.metrics)
    units = "" if made == (classes,) else f"{classes} units and "
    task = "other" if len(spec.outputs) > 1 else "classification"
    return Fix(f"Use {units}{loss_title(usual.loss)}", replace(changed, task=task))


def _loss_fix(spec: NetworkSpec, output: OutputSpec, loss: str) -> Fix:
    return Fix(f"Use {loss_title(loss)}", with_output(spec, output, loss=loss))


def _units(
    spec: NetworkSpec, output: OutputSpec, units: int | None, what: str, made: Shape
) -> Misfit:
    sentence = f"{what}, the output {output.layer} has shape {shape_text(made)}."
    if units is None or len(made) != 1 or not _has_units(spec, output):
        return Misfit(sentence)
    changed = with_options(spec, output.layer, units=units)
    return Misfit(sentence, (Fix(f"Use {counted(units, 'unit')}", changed),))


def _has_units(spec: NetworkSpec, output: OutputSpec) -> bool:
    layer = spec.layer(output.layer)
    return layer is not None and "units" in layer.options


def _fits(taken: Shape, data: Shape) -> bool:
    pairs = zip(taken, data, strict=False)
    return len(taken) == len(data) and all(wanted in (None, size) for wanted, size in pairs)


def _agree(one: Shape, other: Shape) -> bool:
    return len(one) == len(other) and all(
        None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True)
    )


def _squeezed(shape: Shape) -> Shape:
    return shape[:-1] if shape and shape[-1] == 1 else shape
