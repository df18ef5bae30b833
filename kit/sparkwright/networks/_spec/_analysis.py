"""Shapes, parameter counts and problems of a network, row by row, without Keras."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkwright.errors import ConfigurationError

from ._catalogue import LAYER_KINDS
from ._layer_kind import LayerKind
from ._names import NAME_RULE, is_name
from ._network_spec import NetworkSpec
from ._shapes import Misfit, Shape
from ._training_checks import training_problems
from ._wiring import Wire, wire


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
    """

    rows: tuple[LayerAnalysis, ...]
    problems: tuple[str, ...] = ()

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


def analyse(spec: NetworkSpec) -> NetworkAnalysis:
    """Look at every layer of `spec`; never raises for what is wrong with the network."""
    wires = wire(spec.layers)
    rows: list[LayerAnalysis] = []
    for index in range(len(spec.layers)):
        rows.append(_look(spec, index, wires[index], rows))
    return NetworkAnalysis(rows=tuple(rows), problems=training_problems(spec, rows, wires))


def _look(spec: NetworkSpec, index: int, wired: Wire, before: list[LayerAnalysis]) -> LayerAnalysis:
    layer = spec.layers[index]
    sources = [before[source] for source in wired.sources]
    row = LayerAnalysis(
        index=index,
        name=layer.name,
        kind=layer.kind,
        enabled=layer.enabled,
        inputs=tuple(source.name for source in sources),
    )
    if not layer.enabled:
        try:
            _check_name(spec, index)
            if wired.problem is not None and layer.inputs:
                raise Misfit(wired.problem)
        except Misfit as misfit:
            return replace(row, problem=str(misfit))
        return _passed_on(row, sources)
    broken = next((source for source in sources if source.output_shape is None), None)
    kind = LAYER_KINDS.get(layer.kind)
    try:
        if kind is None:
            raise Misfit(f"is of the kind {layer.kind!r}, which is not known here.")
        _check_name(spec, index)
        options = checked_options(kind, layer.options)
        if wired.problem is not None:
            raise Misfit(wired.problem)
        _check_inputs(kind, sources)
        if broken is not None:
            waiting = broken.index if broken.problem is not None else broken.waiting_for
            return replace(row, waiting_for=waiting)
        shapes = tuple(source.output_shape or () for source in sources)
        _check_dtypes(kind, sources)
        outcome = kind.rule(options, shapes)
    except Misfit as misfit:
        return replace(row, problem=str(misfit))
    kept = sources[0].output_dtype if kind.any_dtype and sources else None
    dtype = outcome.dtype or kept or "float32"
    return replace(
        row,
        input_shapes=shapes,
        output_shape=outcome.shape,
        output_dtype=dtype,
        parameters=outcome.trainable + outcome.fixed,
        trainable_parameters=outcome.trainable,
    )


def _passed_on(row: LayerAnalysis, sources: list[LayerAnalysis]) -> LayerAnalysis:
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


def checked_options(kind: LayerKind, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a layer, those not given with their defaults.

    Raises:
        Misfit: naming the option that is missing, unknown, or cannot be meant that way.
    """
    for name in kind.required:
        if name not in given:
            raise Misfit(f"needs `{name}`.")
    for name, value in given.items():
        option = kind.option(name)
        if option is None:
            raise Misfit(f"has no option `{name}`.")
        try:
            option.check(value)
        except ConfigurationError as error:
            raise Misfit(str(error)) from error
    return {**kind.defaults, **given}


def _check_name(spec: NetworkSpec, index: int) -> None:
    name = spec.layers[index].name
    if not is_name(name):
        raise Misfit(f"its name {NAME_RULE}")
    for other in range(index):
        if spec.layers[other].name == name:
            raise Misfit(f"has the same name as row {other + 1}. Give it another one.")


def _check_inputs(kind: LayerKind, sources: list[LayerAnalysis]) -> None:
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


def _check_dtypes(kind: LayerKind, sources: list[LayerAnalysis]) -> None:
    if kind.any_dtype:
        return
    for source in sources:
        dtype = source.output_dtype
        if dtype is not None and not dtype.startswith("float"):
            raise Misfit(
                f"takes floating-point numbers, receives {dtype}. "
                "Put an Embedding or Rescaling before it, or give the Input the dtype float32."
            )
