"""Shapes, parameter counts and problems of each layer of a network, computed by Keras."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError

from ._calls import keras_text, known_kind, layer_call, make, taking
from ._training_checks import training_problems
from ._wiring import NAME_RULE, Misfit, Wire, is_name, wire
from .keras_catalog import LayerKind, is_loaded, load, load_problem
from .signature import Shape

if TYPE_CHECKING:
    from .spec import NetworkSpec

# Layers with weights that accept integer inputs.
_TAKES_INTEGERS = ("Embedding", "Rescaling")


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerAnalysis:
    """Analysis of one layer.

    Attributes:
        index: row of the layer, from 0.
        name: name of the layer.
        kind: class of the layer.
        enabled: whether the layer is part of the model.
        inputs: names of its input layers; disabled ones are replaced by their first input.
        input_shapes: shapes of one example; empty if unknown.
        output_shape: shape of one example; None if unknown.
        output_dtype: such as "float32" or "int32"; None if unknown.
        parameters: number of parameters; None if unknown.
        trainable_parameters: number of trainable parameters; None if unknown.
        problem: problem of this row, in one sentence; None: none.
        waiting_for: row (from 0) whose problem prevents the analysis of this one; None: none.
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
    """Analysis of a network.

    Attributes:
        rows: one for each layer, in order.
        problems: problems of the whole network (no output, an unknown optimizer, ...).
        is_pending: whether Keras is not loaded yet, so that shapes and problems are unknown.
    """

    rows: tuple[LayerAnalysis, ...]
    problems: tuple[str, ...] = ()
    is_pending: bool = False

    @property
    def reason(self) -> str | None:
        """The first problem of the network, in one sentence; None: none."""
        for row in self.rows:
            if row.problem is not None:
                return f"Row {row.index + 1} ({row.name}): {row.problem}"
        return self.problems[0] if self.problems else None

    @property
    def ok(self) -> bool:
        """Whether the network can be built."""
        return self.reason is None

    @property
    def is_chain(self) -> bool:
        """Whether the only input of each enabled layer is the previous one."""
        enabled = [row for row in self.rows if row.enabled]
        follows = (row.inputs == (before.name,) for before, row in pairwise(enabled))
        return all(follows) and not any(row.inputs for row in enabled[:1])

    @property
    def parameters(self) -> int:
        """Total number of parameters; unknown counts are 0."""
        return sum(row.parameters or 0 for row in self.rows)

    @property
    def trainable_parameters(self) -> int:
        """Total number of trainable parameters; unknown counts are 0."""
        return sum(row.trainable_parameters or 0 for row in self.rows)


def analyze(spec: "NetworkSpec") -> NetworkAnalysis:
    """Build every layer of `spec` symbolically, and collect its problems.

    No weights are allocated, and no error is raised for an invalid network. Imports Keras, which
    takes seconds the first time.
    """
    load()
    # Keras keeps uninitialized variables in a thread-local list and initializes them at the end of
    # the next scope. Using a separate thread discards the list.
    with ThreadPoolExecutor(1, "sparkwright-analysis") as pool:
        return pool.submit(_analyze, spec).result()


def analysis_now(spec: "NetworkSpec") -> NetworkAnalysis:
    """The analysis if Keras is loaded; otherwise rows without shapes and counts."""
    if is_loaded():
        return spec.analysis
    rows = (_row(spec, index, wired) for index, wired in enumerate(wire(spec.layers)))
    return NetworkAnalysis(
        rows=tuple(rows),
        problems=(load_problem() or "Keras is loading; shapes are known in a few seconds.",),
        is_pending=True,
    )


def _analyze(spec: "NetworkSpec") -> NetworkAnalysis:
    import keras

    rows: list[LayerAnalysis] = []
    tensors: dict[int, Any] = {}
    with keras.StatelessScope(initialize_variables=False):
        for index, wired in enumerate(wire(spec.layers)):
            row = _row(spec, index, wired)
            try:
                row = _infer_layer(
                    spec, row, wired, [rows[source] for source in wired.sources], tensors
                )
            except (Misfit, ConfigurationError) as error:
                row = replace(row, problem=str(error))
            except Exception as error:  # raised by Keras, TensorFlow or a custom layer
                shapes = [rows[source].output_shape for source in wired.sources]
                text = _window_text(spec, index, shapes) or keras_text(error)
                row = replace(row, problem=text or type(error).__name__)
            rows.append(row)
    return NetworkAnalysis(rows=tuple(rows), problems=tuple(training_problems(spec, rows)))


def _row(spec: "NetworkSpec", index: int, wired: Wire) -> LayerAnalysis:
    layer = spec.layers[index]
    return LayerAnalysis(
        index=index,
        name=layer.name,
        kind=layer.kind,
        enabled=layer.enabled,
        inputs=tuple(spec.layers[source].name for source in wired.sources),
    )


def _infer_layer(
    spec: "NetworkSpec",
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
    kind.check(layer.options)
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


def _window_text(spec: "NetworkSpec", index: int, shapes: Sequence[Shape | None]) -> str | None:
    """A short message for a window larger than its input; None for any other problem."""
    options = spec.layers[index].options
    for name in ("kernel_size", "pool_size"):
        size = options.get(name, 2 if name == "pool_size" else None)
        taken = shapes[0] if len(shapes) == 1 else None
        if size is None or taken is None or options.get("data_format") == "channels_first":
            continue
        space = taken[:-1]
        window = tuple(size) if isinstance(size, list | tuple) else (size,) * len(space)
        pairs = list(zip(window, space, strict=False))
        if len(window) == len(space) and any(
            isinstance(w, int) and s is not None and w > s for w, s in pairs
        ):
            what = name.removesuffix("_size")
            sizes = [" x ".join(map(str, sides)) for sides in (window, space)]
            return f"its {what}, {sizes[0]}, is larger than its input, {sizes[1]}."
    return None


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
