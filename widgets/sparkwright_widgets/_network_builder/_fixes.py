"""Fixes of a network's problem, checked by the analysis. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from sparkwright.networks import (
    LayerAnalysis,
    NetworkAnalysis,
    NetworkSpec,
    OptimizerSpec,
    OutputSpec,
    add_layer,
    defaults_for,
    layer_kind,
    remove_layer,
    replace_layer,
)
from sparkwright.networks.training import loss_kind, metric_kind

from ._html import shape_text

MOST_FIXES = 3  # per problem
_SIZES = {"kernel_size": (5, 3, 2, 1), "pool_size": (2, 1)}


class Fix(NamedTuple):
    """The label of a button, and the changed network."""

    label: str
    spec: NetworkSpec


def fixes(spec: NetworkSpec, analysis: NetworkAnalysis) -> tuple[Fix, ...]:
    """Changes that make the network valid; empty if it is valid or no change helps."""
    if analysis.is_pending or analysis.ok:
        return ()
    broken = next((row for row in analysis.rows if row.problem is not None), None)
    if broken is None:
        return accepted(_of_training(spec, analysis))
    removed = Fix(f"Remove {broken.name}", remove_layer(spec, broken.index))
    return accepted(_of_row(spec, broken, analysis)) or accepted([[removed]])


def accepted(
    choices: Iterable[Iterable[Fix]], solves: Callable[[NetworkSpec], bool] = lambda _spec: True
) -> tuple[Fix, ...]:
    """The first `MOST_FIXES` fixes that the analysis accepts, one per group of alternatives.

    `solves` returns whether a valid network solves the problem; default: always True.
    """
    found: list[Fix] = []
    for alternatives in choices:
        ok = (fix for fix in alternatives if fix.spec.analysis.ok and solves(fix.spec))
        fix = next(ok, None)
        if fix is not None and fix.spec not in [other.spec for other in found]:
            found.append(fix)
        if len(found) == MOST_FIXES:
            break
    return tuple(found)


def loss_title(loss: str) -> str:
    """The name of a loss in words, such as "mean squared error"."""
    return loss.replace("_", " ")


def with_options(spec: NetworkSpec, name: str, **options: Any) -> NetworkSpec:
    """The network with changed options of the layer `name`; None: the default."""
    row = next(row for row, layer in enumerate(spec.layers) if layer.name == name)
    options = {**spec.layers[row].options, **options}
    return _replaced(spec, row, options={k: v for k, v in options.items() if v is not None})


def with_output(spec: NetworkSpec, output: OutputSpec, **fields: Any) -> NetworkSpec:
    """The network with changed fields of an output."""
    outputs = tuple(replace(o, **fields) if o == output else o for o in spec.outputs)
    return replace(spec, outputs=outputs)


def inserted(spec: NetworkSpec, row: int, kind: str, **options: Any) -> NetworkSpec:
    """The network with a new layer between a row and its inputs."""
    inputs = spec.layers[row].inputs
    added = add_layer(spec, kind, after=row - 1, inputs=inputs or None, options=options)
    return _replaced(added, row + 1, inputs=())


def _replaced(spec: NetworkSpec, row: int, **fields: Any) -> NetworkSpec:
    return replace_layer(spec, row, replace(spec.layers[row], **fields))


def _of_row(
    spec: NetworkSpec, broken: LayerAnalysis, analysis: NetworkAnalysis
) -> Iterator[Iterable[Fix]]:
    row, layer, kind = broken.index, spec.layers[broken.index], layer_kind(broken.kind)
    names = [other.name for other in spec.layers]
    if names.index(layer.name) < row:
        free = next(n for n in (f"{layer.name}_{i}" for i in range(2, 999)) if n not in names)
        layers = (*spec.layers[:row], replace(layer, name=free), *spec.layers[row + 1 :])
        yield [Fix(f"Rename to {free}", replace(spec, layers=layers))]
    if kind is None:
        return
    if layer.inputs:
        yield [Fix("Use the layer above", _replaced(spec, row, inputs=()))]
    options = {option.name: option for option in kind.options}
    for name in _SIZES.keys() & options.keys():
        yield [
            Fix(f"Use {size}", with_options(spec, layer.name, **{name: size}))
            for size in _SIZES[name]
        ]
    if "padding" in options:
        everywhere = spec
        for other in spec.layers:
            known = layer_kind(other.kind)
            if known is not None and any(known.option(name) for name in _SIZES):
                everywhere = with_options(everywhere, other.name, padding="same")
        yield [
            Fix("Same padding", with_options(spec, layer.name, padding="same")),
            Fix("Same padding in every layer", everywhere),
        ]
    problem = broken.problem or ""
    for name in layer.options:
        if name in problem and name in options:
            usual = kind.starts.get(name)
            label = f"Use {usual}" if usual is not None else "Use the default"
            changed = with_options(spec, layer.name, **{name: usual})
            yield [Fix(f"{label} for {options[name].title.lower()}", changed)]
    shapes = {other.name: other.output_shape for other in analysis.rows}
    shape = shapes.get(broken.inputs[0]) if len(broken.inputs) == 1 else None
    if shape and None not in shape:
        sizes = [size or 0 for size in shape]
        yield [
            Fix(
                f"Add Reshape to {shape_text((*to,))}",
                inserted(spec, row, "Reshape", target_shape=to),
            )
            for to in ([*sizes, 1], [sizes[0], prod(sizes[1:])])
        ]
        yield [Fix("Add Flatten", inserted(spec, row, "Flatten"))]
    plain = spec
    for other in spec.layers:
        if other.kind == "Input":
            plain = with_options(plain, other.name, dtype=None)
    yield [Fix("Use float32 inputs", plain)]


def _of_training(spec: NetworkSpec, analysis: NetworkAnalysis) -> Iterator[Iterable[Fix]]:
    rows = {row.name: row for row in analysis.rows if row.enabled}
    outputs = [o for o in dict.fromkeys(spec.outputs) if o.layer in rows]
    if len(outputs) < len(spec.outputs):
        yield [Fix("Remove outputs without a layer", replace(spec, outputs=tuple(outputs)))]
    taken = {name for row in rows.values() for name in row.inputs}
    for row in rows.values():
        if row.name in taken or row.name in [o.layer for o in outputs] or row.kind == "Input":
            continue
        usual = defaults_for(spec.task, row.output_shape)
        added = OutputSpec(layer=row.name, loss=usual.loss, metrics=usual.metrics)
        with_one = replace(spec, outputs=(*outputs, added))
        yield [
            Fix(f"Make {row.name} an output", with_one),
            Fix(f"Make {row.name} an output", _activated(with_one, added, usual.activation)),
        ]
        if outputs:
            yield [Fix(f"Remove {row.name}", remove_layer(spec, row.index))]
    for output in outputs:
        yield from _of_loss(spec, output, rows[output.layer])
    usual = OptimizerSpec(kind=spec.optimizer.kind)
    yield [Fix("Use the optimizer's defaults", replace(spec, optimizer=usual))]
    yield [Fix("Use Adam", replace(spec, optimizer=OptimizerSpec()))]


def _of_loss(spec: NetworkSpec, output: OutputSpec, row: LayerAnalysis) -> Iterator[Iterable[Fix]]:
    loss, usual = loss_kind(output.loss), defaults_for(spec.task, row.output_shape)
    label = f"Use {loss_title(usual.loss)}"
    yield (
        Fix(label, with_output(_activated(spec, output, activation), output, **fields))
        for fields in ({"loss": usual.loss}, {"loss": usual.loss, "metrics": usual.metrics})
        for activation in ("", usual.activation)
    )
    if loss is None:
        return
    yield (
        Fix(f"Use the activation {activation}", _activated(spec, output, activation))
        for activation in ("softmax" if loss.least_outputs > 1 else "sigmoid", *loss.activations)
    )
    known = ((name, metric_kind(name)) for name in output.metrics)
    kept = tuple(name for name, metric in known if metric is None or loss.labels in metric.labels)
    removed = ", ".join(name for name in output.metrics if name not in kept)
    yield [Fix(f"Remove the metric {removed}", with_output(spec, output, metrics=kept))]


def _activated(spec: NetworkSpec, output: OutputSpec, activation: str) -> NetworkSpec:
    """The network with another activation of an output layer, if it has one; "": unchanged."""
    layer = spec.layer(output.layer)
    kind = layer_kind(layer.kind) if layer is not None else None
    if not activation or kind is None or kind.option("activation") is None:
        return spec
    return with_options(spec, output.layer, activation=activation)
