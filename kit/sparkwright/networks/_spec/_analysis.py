"""Shapes, parameter counts and problems of a network, row by row, without Keras."""

from dataclasses import dataclass

from ._network_spec import NetworkSpec

Shape = tuple[int | None, ...]  # of one example; None: of any length


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
    """Look at every layer of `spec`; never raises."""
    raise NotImplementedError
