"""Shapes, parameter counts and problems of each layer of a network, computed by Keras."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from typing import Any

from sparkwright.errors import ConfigurationError

from ._calls import keras_text, known_kind, layer_call, make, seeded, taking
from ._parts import AbstractNetworkSpec
from ._rows import LayerAnalysis as LayerAnalysis, NetworkAnalysis as NetworkAnalysis
from ._training_checks import training_problems
from ._wiring import NAME_RULE, Misfit, Wire, is_name, wire
from .keras_catalog import LayerKind, is_loaded, load, load_problem
from .signature import Shape

# Layers with weights that accept integer inputs.
_TAKES_INTEGERS = ("Embedding", "Rescaling")


def analyze(spec: AbstractNetworkSpec) -> NetworkAnalysis:
    """Build every layer of `spec` symbolically, and collect its problems."""
    # No weights are allocated, and no error is raised for an invalid network. Imports Keras, which
    # takes seconds the first time.
    load()
    # Keras keeps uninitialized variables in a thread-local list and initializes them at the end of
    # the next scope. Using a separate thread discards the list.
    with ThreadPoolExecutor(1, "sparkwright-analysis") as pool:
        return pool.submit(_analyze, spec).result()


def analysis_now(spec: AbstractNetworkSpec) -> NetworkAnalysis:
    """The analysis if Keras is loaded; otherwise rows without shapes and counts."""
    if is_loaded():
        return spec.analysis
    rows = (_row(spec, index, wired) for index, wired in enumerate(wire(spec.layers)))
    return NetworkAnalysis(
        rows=tuple(rows),
        problems=(load_problem() or "Keras is loading; shapes are known in a few seconds.",),
        is_pending=True,
    )


def _analyze(spec: AbstractNetworkSpec) -> NetworkAnalysis:
    import keras

    rows: list[LayerAnalysis] = []
    tensors: dict[int, Any] = {}
    with seeded(0), keras.StatelessScope(initialize_variables=False):
        for index, wired in enumerate(wire(spec.layers)):
            row = _row(spec, index, wired)
            try:
                row = _infer_layer(
                    spec, row, wired, [rows[source] for source in wired.sources], tensors
                )
            except (Misfit, ConfigurationError) as error:
                row = replace(row, problem=str(error))
            except Exception as error:  # raised by Keras, TensorFlow or a custom layer
                row = replace(row, problem=keras_text(error) or type(error).__name__)
            rows.append(row)
    return NetworkAnalysis(rows=tuple(rows), problems=tuple(training_problems(spec, rows)))


def _row(spec: AbstractNetworkSpec, index: int, wired: Wire) -> LayerAnalysis:
    layer = spec.layers[index]
    return LayerAnalysis(
        index=index,
        name=layer.name,
        kind=layer.kind,
        enabled=layer.enabled,
        inputs=tuple(spec.layers[source].name for source in wired.sources),
    )


def _infer_layer(
    spec: AbstractNetworkSpec,
    row: LayerAnalysis,
    wired: Wire,
    sources: Sequence[LayerAnalysis],
    tensors: dict[int, Any],
) -> LayerAnalysis:
    """Complete the row with Keras' shapes and counts; store the layer's output in `tensors`."""
    layer = spec.layers[row.index]
    if not is_name(layer.name):
        raise Misfit(f"its name {NAME_RULE}")
    same = next(k for k, other in enumerate(spec.layers) if other.name == layer.name)
    if same < row.index:
        raise Misfit(f"has the same name as row {same + 1}. Give it a unique name.")
    kind = known_kind(layer.kind)
    made = make(layer_call(layer)) if layer.enabled else None
    if wired.problem is not None and (layer.enabled or layer.inputs):
        raise Misfit(wired.problem)
    if layer.enabled:
        _check_count(kind, row.inputs)
    broken = next((source for source in sources if source.output_shape is None), None)
    if broken is not None and layer.enabled:
        waiting = broken.index if broken.problem is not None else broken.waiting_for
        return replace(row, waiting_for=waiting)
    taken = [tensors.get(source) for source in wired.sources]
    output: Any = taken[0] if taken else None  # output of a disabled layer: its first input
    if made is not None:
        output = made if kind.takes == (0, 0) else made(*taking(kind, taken))
        if not hasattr(output, "shape"):
            raise Misfit("returns several outputs; exactly one is supported.")
        tensors[row.index] = output
    if output is None:
        return row
    shape: Shape = tuple(output.shape[1:])
    if any(length is not None and length < 1 for length in shape):
        raise Misfit(f"has an empty output, of shape {list(shape)}.")
    found = replace(
        row,
        input_shapes=tuple(source.output_shape or () for source in sources),
        output_shape=shape,
        output_dtype=str(output.dtype),
        parameters=count_numbers(getattr(made, "weights", ())),
        trainable_parameters=count_numbers(getattr(made, "trainable_weights", ())),
    )
    _check_dtypes(found, sources)
    return found


def count_numbers(weights: Iterable[Any]) -> int:
    """Number of elements of the weights."""
    return sum(prod(weight.shape) for weight in weights)


def _check_count(kind: LayerKind, names: Sequence[str]) -> None:
    least, most = kind.takes
    if len(names) < least or (most is not None and len(names) > most):
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        raise Misfit(
            f"takes {least if least == most else wanted} input{'' if most == 1 else 's'}, "
            f"receives {len(names)} ({', '.join(names)}). Choose which layers it takes."
        )


def _check_dtypes(row: LayerAnalysis, sources: Sequence[LayerAnalysis]) -> None:
    if not row.trainable_parameters or row.kind in _TAKES_INTEGERS:
        return
    for source in sources:
        if "float" not in str(source.output_dtype):
            raise Misfit(
                f"takes floating-point numbers, receives {source.output_dtype}. "
                "Put an Embedding or Rescaling before it, or give the Input the dtype float32."
            )
