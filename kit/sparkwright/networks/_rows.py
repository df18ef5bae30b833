"""The analysis of a network as values: a row for each layer, and problems. Imports no Keras."""

from dataclasses import dataclass
from itertools import pairwise

from .signature import Shape


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
