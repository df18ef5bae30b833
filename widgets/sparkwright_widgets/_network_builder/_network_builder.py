"""The NetworkBuilder: edit a network as a list of layers."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, NetworkAnalysis, NetworkSpec
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import escaped
from sparkwright_widgets._table import text_table
from sparkwright_widgets._ui import Part, close_all

from ._data_fit import DataFacts, Shape
from ._editing_pane import EditingPane
from ._graph import graph_html, graph_svg
from ._html import (
    LAYER_HEADS,
    TEXT_COLUMNS,
    layer_cells,
    layer_table,
    row_state,
    size_text,
    summary_line,
)
from ._pane import ViewingPane, is_model


class NetworkBuilder(Part):
    """Builds a network without code; shows any Keras model.

    Args:
        value: a NetworkSpec to edit, or a Keras model to show; a model can be edited if all its
            layers are known. Default None: LeNet.

    Attributes:
        editing: the pane that edits a network.
        viewing: the pane that shows a model; None if no model is shown.

    Example:
        ```python
        builder = NetworkBuilder()
        builder            # the last line of a cell shows it
        model = builder.build()
        ```
    """

    def __init__(self, value: Any = None) -> None:
        super().__init__("Network", styles=("pair.css", "network_builder.css"))
        self.viewing: ViewingPane | None = None
        self.editing = EditingPane(guarded=self.guarded, say=self.say, changed=self._changed)
        if is_model(value):
            self.show_model(value)
        else:
            self.spec = PRESETS["lenet"].make() if value is None else value

    @property
    def _pane(self) -> EditingPane | ViewingPane:
        return self.editing if self.viewing is None else self.viewing

    @property
    def spec(self) -> NetworkSpec:
        """The network as a NetworkSpec; setting it replaces the network, which can be undone.

        Raises:
            ConfigurationError: if a model is shown that cannot be written as a NetworkSpec.
        """
        return self._pane.spec

    @spec.setter
    def spec(self, spec: NetworkSpec) -> None:
        if not isinstance(spec, NetworkSpec):
            raise ConfigurationError(
                f"`spec` must be a NetworkSpec. Received: spec={type(spec).__name__}. "
                "Use `show_model` for a Keras model."
            )
        self._show_pane(None)
        self.editing.take(spec)

    def show_model(self, model: Any) -> None:
        """Show a Keras model read-only; a button creates an editable copy if possible.

        Raises:
            ConfigurationError: if `model` is not a Keras model.
        """
        if not is_model(model):
            raise ConfigurationError(
                f"`model` must be a Keras model. Received: model={type(model).__name__}."
            )
        self._show_pane(ViewingPane(model, self.guarded(self._edit_copy)))
        self._changed()

    @property
    def analysis(self) -> NetworkAnalysis:
        """Shapes, parameter counts and problems of each row; waits until Keras is loaded."""
        self.editing.wait()
        return self._pane.analysis

    @property
    def problem(self) -> str | None:
        """Why the network cannot be trained, or that Keras is still loading; None if it can."""
        return self._pane.problem

    def build(self) -> Any:
        """Return the compiled Keras model; if a model is shown, return that model.

        The first call takes seconds because it loads Keras.

        Raises:
            ConfigurationError: if there is a `problem`.
        """
        self.editing.wait()
        if self.problem is not None:
            raise ConfigurationError(
                f"the network has a problem and cannot be built: {self.problem}"
            )
        return self.spec.build() if self.viewing is None else self.viewing.model

    def set_data(
        self,
        features: Mapping[str, Shape] | None = None,
        labels: Mapping[str, Shape] | None = None,
        classes: Mapping[str, int] | None = None,
    ) -> None:
        """Set the shapes of the data, to show mismatches with the network and their fixes.

        Args:
            features: shape of one example of each input, by name; default None: unknown.
            labels: shape of one label of each output, by name; default None: unknown.
            classes: number of classes of each output, by name; default None: unknown.
        """
        self.editing.set_data(
            DataFacts(
                features={name: tuple(shape) for name, shape in (features or {}).items()},
                labels={name: tuple(shape) for name, shape in (labels or {}).items()},
                classes=dict(classes or {}),
            )
        )

    def close(self) -> None:
        """Close all widgets, including those of the hidden pane."""
        super().close()
        if self.viewing is not None:
            close_all(self.editing)

    def _edit_copy(self) -> None:
        self.spec = self.spec

    def _show_pane(self, viewing: ViewingPane | None) -> None:
        before, self.viewing = self.viewing, viewing
        pane = self.editing if viewing is None else viewing
        if pane not in self.children:
            self.show(pane)
        if before is not None:
            close_all(before)

    def _still(self) -> Block | None:
        pane = self._pane
        return network_block(pane.analysis, spec=pane.known, name=pane.name, problem=pane.problem)


def network_block(
    analysis: NetworkAnalysis, *, spec: NetworkSpec | None, name: str, problem: str | None
) -> Block:
    """The network as a report block: layers, graph unless it is a chain, training settings."""
    outputs = [output.layer for output in spec.outputs] if spec else []
    training = _training(spec) if spec else []
    svg = "" if analysis.is_chain else graph_svg(analysis.rows, name=name, outputs=outputs)
    graph = graph_html(svg, name=name) if svg else ""
    notes = "".join(f"<p>{escaped(sentence)}</p>" for sentence in training)
    html = (
        f"<h3>{escaped(name)}</h3>{summary_line(analysis, problem)}"
        f"{layer_table(analysis.rows, name=name)}{graph}{notes}"
    )
    rows = [layer_cells(row, row_state(row).word) for row in analysis.rows]
    text = "\n".join(
        [
            f"{name}: {problem or size_text(analysis)}",
            text_table(LAYER_HEADS, rows, text_columns=TEXT_COLUMNS),
            *training,
        ]
    )
    return Block(html=html, text=text, kind="network")


def _training(spec: NetworkSpec) -> Sequence[str]:
    """Sentences that describe the outputs and the optimizer."""
    sentences = [
        f"Output {output.layer}: loss {output.loss}"
        + (f", metrics {', '.join(output.metrics)}" if output.metrics else "")
        + ("" if len(spec.outputs) == 1 else f", weight {output.weight:g}")
        + "."
        for output in spec.outputs
    ]
    settings = ", ".join(f"{name} {value}" for name, value in spec.optimizer.options.items())
    seed = "random each time" if spec.seed is None else f"seed {spec.seed}"
    optimizer = f"{spec.optimizer.kind}{f' ({settings})' if settings else ''}"
    return [*sentences, f"Optimizer {optimizer}. Initial weights: {seed}."]
