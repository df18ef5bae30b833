"""Shapes, parameter counts and problems of a network, row by row, as Keras sees them."""

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

# Layers that take indices, and those that only move or scale values, take integers.
_TAKES_INTEGERS = ("Embedding", "Rescaling")


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
    def is_chain(self) -> bool:
        """Whether each layer takes the one before it, so that the list of rows says it all."""
        enabled = [row for row in self.rows if row.enabled]
        follows = (row.inputs == (before.name,) for before, row in pairwise(enabled))
        return all(follows) and not any(row.inputs for row in enabled[:1])

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
                row = _look(spec, row, wired, [rows[source] for source in wired.sources], tensors)
            except (Misfit, ConfigurationError) as error:
                row = replace(row, problem=str(error))
            except Exception as error:  # whatever Keras, TensorFlow or a layer of the user raises
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


def _look(
    spec: "NetworkSpec",
    row: LayerAnalysis,
    wired: Wire,
    sources: Sequence[LayerAnalysis],
    tensors: dict[int, Any],
) -> LayerAnalysis:
    """The row with what Keras says of it; its output is put into `tensors`."""
    layer = spec.layers[row.index]
    if not is_name(layer.name):
        raise Misfit(f"its name {NAME_RULE}")
    same = next(k for k, other in enumerate(spec.layers) if other.name == layer.name)
    if same < row.index:
        raise Misfit(f"has the same name as row {same + 1}. Give it another one.")
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
    output: Any = taken[0] if taken else None  # passed on by a layer that is switched off
    if made is not None:
        output = made if kind.takes == (0, 0) else made(*taking(kind, taken))
        if not hasattr(output, "shape"):
            raise Misfit("gives several outputs, where one is needed.")
        tensors[row.index] = output
    if output is None:
        return row
    shape: Shape = tuple(output.shape[1:])
    if any(length is not None and length < 1 for length in shape):
        raise Misfit(f"would give nothing: its output has the shape {list(shape)}.")
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
    """A problem of a convolution or pooling in fewer words than Keras has; None: another one."""
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
    """How many numbers the weights hold."""
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
