"""Mismatches between a network and the data, and changes that fit it to the data. Pure."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
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
    add_layer,
    defaults_for,
    replace_layer,
)
from sparkwright_widgets._format import counted, shape_text

Shape = tuple[int | None, ...]

_SPARSE, _ONE_HOT = "sparse_categorical_crossentropy", "categorical_crossentropy"
_FLATTENING = ("Flatten", "GlobalAveragePooling1D", "GlobalAveragePooling2D")
# Layers that act on the last axis only; a flattening layer is inserted before the first of them.
_AT_EACH_PLACE = ("Dense", "Dropout", "Activation")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFacts:
    """Known facts about the data, by the name of the input or output."""

    features: Mapping[str, Shape] = field(default_factory=dict[str, Shape])  # shapes of one example
    labels: Mapping[str, Shape] = field(default_factory=dict[str, Shape])  # shapes of one example
    classes: Mapping[str, int] = field(default_factory=dict[str, int])  # their numbers

    def __hash__(self) -> int:
        """Hash the names only; mappings are not hashable, and `preset_for` is cached."""
        return hash((*sorted(self.features), *sorted(self.labels)))


class Fix(NamedTuple):
    """The label of a button, and the changed network."""

    label: str
    spec: NetworkSpec


class Misfit(NamedTuple):
    """A mismatch in a sentence, and its fixes, the best first."""

    sentence: str
    about: str = ""  # the output; empty: the inputs
    stops: bool = True  # whether training would fail
    fixes: tuple[Fix, ...] = ()


def misfits(spec: NetworkSpec, analysis: NetworkAnalysis, data: DataFacts) -> tuple[Misfit, ...]:
    """Compare the inputs of `spec` with the features, and its outputs with the labels."""
    found = _compared(spec, analysis, data)
    # While Keras is loading, fixes cannot be checked.
    if analysis.is_pending:
        return tuple(found)
    return tuple(misfit._replace(fixes=_fixes(spec, misfit, data)) for misfit in found)


def _preset_fixes(spec: NetworkSpec, data: DataFacts) -> tuple[Fix, ...]:
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


# --- mismatches


def _compared(spec: NetworkSpec, analysis: NetworkAnalysis, data: DataFacts) -> list[Misfit]:
    found = [Misfit(sentence) for sentence in _of_inputs(spec, data.features)]
    shapes = {row.name: row.output_shape for row in analysis.rows if row.enabled}
    for output, label in _labeled(spec, data):
        made = shapes.get(output.layer)
        if made is not None:
            misfit = _of_label(output, made, data.labels[label], data.classes.get(label))
            found += [misfit] if misfit is not None else []
    return found


def _labeled(spec: NetworkSpec, data: DataFacts) -> Iterator[tuple[OutputSpec, str]]:
    """Yield each output with the name of its labels."""
    is_only = len(spec.outputs) == len(data.labels) == 1
    for name in data.labels:
        yield from ((o, name) for o in spec.outputs if is_only or o.layer == name)


def _fed(spec: NetworkSpec, features: Mapping[str, Shape]) -> dict[str, str]:
    """Input -> name of its features."""
    inputs = [x.name for x in spec.layers if x.kind == "Input" and x.enabled]
    return dict(zip(inputs, features if len(inputs) == len(features) == 1 else inputs, strict=True))


def _of_inputs(spec: NetworkSpec, features: Mapping[str, Shape]) -> Iterator[str]:
    pairs = _fed(spec, features) if features else {}
    if missing := [name for name, feature in pairs.items() if feature not in features]:
        yield (
            f"The data has no features for the input {', '.join(missing)}. Features: "
            f"{', '.join(features)}. Rename the inputs to match the features."
        )
        return
    for layer in spec.layers:
        if layer.name in pairs:
            shape, feature = layer.options.get("shape"), pairs[layer.name]
            taken = tuple(shape) if isinstance(shape, list | tuple) else None
            if taken is None or not _agree(taken, features[feature], open_data=False):
                yield (
                    f"The input {layer.name} has shape {shape_text(taken)}; each example of "
                    f"{feature} has shape {shape_text(features[feature])}."
                )


def _of_label(output: OutputSpec, made: Shape, shape: Shape, classes: int | None) -> Misfit | None:
    """The mismatch between labels of shape `shape` and an output of shape `made`, if any."""
    name, is_sparse = output.layer, output.loss == _SPARSE
    agrees = _agree(_squeezed(shape), _squeezed(made))
    if is_sparse:
        agrees = any(_agree(each, made[:-1]) for each in (shape, _squeezed(shape)))
    if not agrees:
        label = f"A label has shape {shape_text(shape)}" if shape else "A label is one number"
        expected = "a class index" if is_sparse else "one value for each output"
        if is_sparse and len(made) > 1:
            expected = f"a class index for each of {shape_text(made[:-1])} positions"
        return Misfit(
            f"{label}, the output {name} has shape {shape_text(made)}. The loss "
            f"{loss_title(output.loss)} expects {expected}.",
            name,
        )
    if classes is None:
        return None
    kind, units = LOSSES.get(output.loss), made[-1] if made else 1
    if kind is not None and kind.labels in ("zeros and ones", "-1 and 1"):
        is_wrong, stops = units == 1 and classes > 2, True
    else:
        # More outputs only cost time.
        is_wrong, stops = is_sparse and units not in (None, classes), classes > (units or 0)
    sentence = f"The data has {classes} classes, the output {name} has shape {shape_text(made)}."
    return Misfit(sentence, name, stops) if is_wrong else None


def _agree(one: Shape, other: Shape, *, open_data: bool = True) -> bool:
    """Whether two shapes agree; None agrees with any length, in `other` only if `open_data`."""
    return len(one) == len(other) and all(
        length in (None, size) or (open_data and size is None)
        for length, size in zip(one, other, strict=True)
    )


def _squeezed(shape: Shape) -> Shape:
    return shape[:-1] if shape and shape[-1] == 1 else shape


# --- fixes


def _fixes(spec: NetworkSpec, misfit: Misfit, data: DataFacts) -> tuple[Fix, ...]:
    """The changes that solve a misfit, one of each group of alternatives; else presets."""

    def solves(fix: Fix) -> bool:
        analysis = fix.spec.analysis
        left = _compared(fix.spec, analysis, data) if analysis.ok else [misfit]
        return misfit.about not in [other.about for other in left]

    groups = _input_changes(spec, data)
    for output, label in _labeled(spec, data):
        if output.layer == misfit.about:
            groups = _output_changes(spec, output, data.labels[label], data.classes.get(label))
    found = (next(filter(solves, alternatives), None) for alternatives in groups)
    return tuple(fix for fix in found if fix is not None) or _preset_fixes(spec, data)


def _input_changes(spec: NetworkSpec, data: DataFacts) -> Iterator[Iterable[Fix]]:
    found = {name: data.features.get(each) for name, each in _fed(spec, data.features).items()}
    if None not in found.values():
        changed = spec
        for name, shape in found.items():
            changed = _with_options(changed, name, shape=list(shape or ()))
        shapes = " and ".join(map(shape_text, found.values()))
        yield [Fix(f"Use the data's shape: {shapes}", changed)]


def _output_changes(
    spec: NetworkSpec, output: OutputSpec, shape: Shape, classes: int | None
) -> Iterator[Iterable[Fix]]:
    other = {_SPARSE: _ONE_HOT, _ONE_HOT: _SPARSE}.get(output.loss)
    if other is not None:
        yield [Fix(f"Use {loss_title(other)}", _with_output(spec, output, loss=other))]
    layer = spec.layer(output.layer)
    if layer is not None and "units" in layer.options:
        if classes is not None and output.loss == _SPARSE:
            changed = _with_options(spec, layer.name, units=classes)
            yield [Fix(f"Use {counted(classes, 'unit')}", changed)]
        elif classes is not None:
            usual = defaults_for("classification", (classes,))
            changed = _with_options(spec, layer.name, units=classes, activation=usual.activation)
            changed = _with_output(changed, output, loss=usual.loss, metrics=usual.metrics)
            task = "other" if len(spec.outputs) > 1 else "classification"
            label = f"Use {classes} units and {loss_title(usual.loss)}"
            yield [Fix(label, replace(changed, task=task))]
        units = shape[-1] if shape else 1
        if units is not None:
            changed = _with_options(spec, layer.name, units=units)
            yield [Fix(f"Use {counted(units, 'unit')}", changed)]
    place = next((k for k, each in enumerate(spec.layers) if each.name == output.layer), 0)
    while place and not spec.layers[place].inputs and spec.layers[place - 1].kind in _AT_EACH_PLACE:
        place -= 1
    yield (Fix(f"Add {kind}", _inserted(spec, place, kind)) for kind in _FLATTENING)


def loss_title(loss: str) -> str:
    """The name of a loss in words, such as "mean squared error"."""
    return loss.replace("_", " ")


def _with_options(spec: NetworkSpec, name: str, **options: Any) -> NetworkSpec:
    row = next(row for row, layer in enumerate(spec.layers) if layer.name == name)
    layer = spec.layers[row]
    return replace_layer(spec, row, replace(layer, options={**layer.options, **options}))


def _with_output(spec: NetworkSpec, output: OutputSpec, **fields: Any) -> NetworkSpec:
    outputs = tuple(replace(o, **fields) if o == output else o for o in spec.outputs)
    return replace(spec, outputs=outputs)


def _inserted(spec: NetworkSpec, row: int, kind: str) -> NetworkSpec:
    """The network with a new layer between a row and its inputs."""
    added = add_layer(spec, kind, after=row - 1, inputs=spec.layers[row].inputs or None)
    return replace_layer(added, row + 1, replace(added.layers[row + 1], inputs=()))
