"""Shapes, parameter counts and problems of a network, row by row, as Keras sees them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError

from ._calls import apply, keras_text, layer_call, make
from ._training_checks import training_problems
from ._wiring import NAME_RULE, Wire, is_name, wire
from .keras_catalog import LayerKind, is_loaded, layer_kind, load, load_problem

if TYPE_CHECKING:
    from .spec import NetworkSpec

Shape = tuple[int | None, ...]  # of one example; None: of any length
# Layers that take indices, and those that only move or scale values, take integers.
_TAKES_INTEGERS = ("Embedding", "Rescaling")


class Misfit(Exception):
    """What is wrong with a layer, in one sentence; it stays within the analysis."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerAnalysis:
    """One layer of the network, looked at.

    Attributes:
        index: its row, from 0.
        name: its name.
        kind: its class.
        enabled: whether it takes part.
        inputs: names of the enabled layers whose outputs it takes in the end.
        input_shapes: of one example each; empty if not known.
        output_shape: of one example; None if not known.
        output_dtype: such as "float32" or "int32"; None if not known.
        parameters: how many numbers it holds; None if not known.
        trainable_parameters: those that training changes.
        problem: what is wrong with this row, in one sentence; None: nothing.
        waiting_for: the row (from 0) whose problem keeps this one from being known; None: none.
    """

    index: int
    name: str
    kind: str
    enabled: bool = True
    inputs: tuple[str, ...] = ()
    input_shapes: tuple[Shape, ...] = ()
    output_shape: Shape | None = None
    output_dtype: str | None = None
    parameters: int | None = None
    trainable_parameters: int | None = None
    problem: str | None = None
    waiting_for: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkAnalysis:
    """A network, looked at.

    Attributes:
        rows: one a layer, in order.
        problems: sentences about the network as a whole (no output, an unknown optimizer, ...).
        is_pending: whether Keras was not loaded, so that shapes and problems are not known yet.
    """

    rows: tuple[LayerAnalysis, ...]
    problems: tuple[str, ...] = ()
    is_pending: bool = False

    @property
    def reason(self) -> str | None:
        """Why the network cannot be trained, in one sentence; None: it can."""
        for row in self.rows:
            if row.problem is not None:
                return f"Row {row.index + 1} ({row.name}): {row.problem}"
        return self.problems[0] if self.problems else None

    @property
    def ok(self) -> bool:
        """Whether the network can be built."""
        return self.reason is None

    @property
    def parameters(self) -> int:
        """Numbers that the layers hold, as far as known."""
        return sum(row.parameters or 0 for row in self.rows)

    @property
    def trainable_parameters(self) -> int:
        """Those that training changes."""
        return sum(row.trainable_parameters or 0 for row in self.rows)


def analyze(spec: "NetworkSpec") -> NetworkAnalysis:
    """Make every layer of `spec` symbolically; never raises for what is wrong with the network.

    No weights are allocated, however large a layer is. Keras is loaded, which takes seconds the
    first time.
    """
    load()
    # Keras lists variables without values for each thread, and gives them values at the end of the
    # next scope; a thread of its own takes the list with it.
    with ThreadPoolExecutor(1, "sparkwright-analysis") as pool:
        return pool.submit(_analyze, spec).result()


def analysis_now(spec: "NetworkSpec") -> NetworkAnalysis:
    """The analysis if Keras is loaded; else its rows without shapes and counts, at once."""
    if is_loaded():
        return spec.analysis
    rows: list[LayerAnalysis] = []
    for index, wired in enumerate(wire(spec.layers)):
        rows.append(_row(spec, index, [rows[source] for source in wired.sources]))
    return NetworkAnalysis(
        rows=tuple(rows),
        problems=(load_problem() or "Keras is loading; shapes are known in a few seconds.",),
        is_pending=True,
    )


def _analyze(spec: "NetworkSpec") -> NetworkAnalysis:
    import keras

    wires = wire(spec.layers)
    rows: list[LayerAnalysis] = []
    tensors: dict[int, Any] = {}
    with keras.StatelessScope(initialize_variables=False):
        for index in range(len(spec.layers)):
            rows.append(_look(spec, index, wires[index], rows, tensors))
    return NetworkAnalysis(rows=tuple(rows), problems=training_problems(spec, rows, wires))


def _row(spec: "NetworkSpec", index: int, sources: Sequence[LayerAnalysis]) -> LayerAnalysis:
    layer = spec.layers[index]
    return LayerAnalysis(
        index=index,
        name=layer.name,
        kind=layer.kind,
        enabled=layer.enabled,
        inputs=tuple(source.name for source in sources),
    )


def _look(
    spec: "NetworkSpec",
    index: int,
    wired: Wire,
    before: Sequence[LayerAnalysis],
    tensors: dict[int, Any],
) -> LayerAnalysis:
    layer = spec.layers[index]
    sources = [before[source] for source in wired.sources]
    row = _row(spec, index, sources)
    try:
        _check_name(spec, index)
        kind = _known(layer.kind, layer.options)
        if not layer.enabled:
            if wired.problem is not None and layer.inputs:
                raise Misfit(wired.problem)
            return _passed_on(row, sources)
        made = make(layer_call(layer))
        if wired.problem is not None:
            raise Misfit(wired.problem)
        _check_inputs(kind, sources)
        broken = next((source for source in sources if source.output_shape is None), None)
        if broken is not None:
            waiting = broken.index if broken.problem is not None else broken.waiting_for
            return replace(row, waiting_for=waiting)
        if kind.takes == "none":
            tensors[index] = made
            return _measured(row, sources, made, (), ())
        output = apply(kind, made, [tensors[source] for source in wired.sources])
        found = _measured(row, sources, output, made.weights, made.trainable_weights)
        _check_dtypes(found, sources)
        tensors[index] = output
    except Misfit as misfit:
        return replace(row, problem=str(misfit))
    except Exception as error:  # whatever Keras, TensorFlow or a layer of the user raises
        return replace(row, problem=keras_text(error) or type(error).__name__)
    return found


def _known(name: str, given: Mapping[str, Any]) -> LayerKind:
    kind = layer_kind(name)
    if kind is None:
        raise Misfit(f"is of the kind {name!r}, which is not known here.")
    for required in kind.required:
        if required not in given:
            raise Misfit(f"needs `{required}`.")
    for option in given:
        declared = kind.option(option)
        if declared is None:
            raise Misfit(f"has no option `{option}`.")
        if declared.maximum is not None:  # which Keras does not check
            try:
                declared.check(given[option])
            except ConfigurationError as error:
                raise Misfit(str(error)) from error
    return kind


def _measured(
    row: LayerAnalysis,
    sources: Sequence[LayerAnalysis],
    output: Any,
    weights: Sequence[Any],
    trainable: Sequence[Any],
) -> LayerAnalysis:
    if not hasattr(output, "shape"):
        raise Misfit("gives several outputs, where one is needed.")
    shape: Shape = tuple(output.shape[1:])
    if any(length is not None and length < 1 for length in shape):
        raise Misfit(f"would give nothing: its output has the shape {list(shape)}.")
    return replace(
        row,
        input_shapes=tuple(source.output_shape or () for source in sources),
        output_shape=shape,
        output_dtype=str(output.dtype),
        parameters=sum(prod(weight.shape) for weight in weights),
        trainable_parameters=sum(prod(weight.shape) for weight in trainable),
    )


def _passed_on(row: LayerAnalysis, sources: Sequence[LayerAnalysis]) -> LayerAnalysis:
    if not sources:
        return row
    return replace(
        row,
        input_shapes=tuple(source.output_shape or () for source in sources),
        output_shape=sources[0].output_shape,
        output_dtype=sources[0].output_dtype,
        parameters=0,
        trainable_parameters=0,
    )


def _check_name(spec: "NetworkSpec", index: int) -> None:
    name = spec.layers[index].name
    if not is_name(name):
        raise Misfit(f"its name {NAME_RULE}")
    for other in range(index):
        if spec.layers[other].name == name:
            raise Misfit(f"has the same name as row {other + 1}. Give it another one.")


def _check_inputs(kind: LayerKind, sources: Sequence[LayerAnalysis]) -> None:
    names = ", ".join(source.name for source in sources)
    if kind.takes == "one" and len(sources) != 1:
        raise Misfit(f"takes one input, receives {len(sources)} ({names}).")
    if kind.takes == "several":
        if len(sources) < kind.least:
            raise Misfit(
                f"needs at least {kind.least} inputs, receives {len(sources)} ({names}). "
                "Choose which layers it takes."
            )
        if kind.most is not None and len(sources) > kind.most:
            raise Misfit(f"takes at most {kind.most} inputs, receives {len(sources)} ({names}).")


def _check_dtypes(row: LayerAnalysis, sources: Sequence[LayerAnalysis]) -> None:
    if not row.trainable_parameters or row.kind in _TAKES_INTEGERS:
        return
    for source in sources:
        dtype = source.output_dtype
        if dtype is not None and "float" not in dtype:
            raise Misfit(
                f"takes floating-point numbers, receives {dtype}. "
                "Put an Embedding or Rescaling before it, or give the Input the dtype float32."
            )
