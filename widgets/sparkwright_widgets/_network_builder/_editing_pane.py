"""A network to edit: the list of layers, the row in hand, and all that belongs to it."""

import threading
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, NetworkAnalysis, NetworkSpec, analysis_now, layer_kinds
from sparkwright.networks.keras_catalog import is_loaded, load
from sparkwright.networks.palette import PALETTE
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Background, Button, Dropdown, close_all, row

from ._builder_state import (
    BuilderState,
    added,
    changed,
    duplicated,
    moved,
    redone,
    removed,
    renamed,
    selecting,
    switched,
    undone,
    with_inputs,
    with_options,
)
from ._data_fit import DataFacts, Misfit, misfits, preset_for
from ._estimate_view import EstimateView
from ._graph import graph_svg, is_chain
from ._html import layer_rows, summary_line
from ._layer_editor import LayerEditor
from ._layer_list import LayerList, WatchedFold
from ._text_exchange import TextExchange
from ._training_editor import TrainingEditor

_WIDE = {"description_width": "initial"}
_EMPTY = "empty"


class EditingPane(widgets.VBox):
    """Edits a network.

    Args:
        guarded: wraps callbacks so that what they raise is shown.
        say: shows one line about what was done.
        told: called when the network, or what is wrong with it, has changed.
    """

    def __init__(
        self,
        *,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        say: Callable[[str], None],
        told: Callable[[], None],
    ) -> None:
        self._guarded, self._say, self._told = guarded, say, told
        self._lock = threading.RLock()
        self._state = BuilderState()
        self._data = DataFacts()
        self._refreshing = False
        self.analysis = NetworkAnalysis(rows=())
        self._loading = Background("keras")
        super().__init__()
        self.add_class("sparkwright-builder")
        self._make_controls()
        if is_loaded():
            self._offer_all()
        else:
            self._loading.begin(load, then=self._keras_loaded, otherwise=self._keras_missing)

    @property
    def spec(self) -> NetworkSpec:
        """The network."""
        return self._state.spec

    @property
    def problem(self) -> str | None:
        """Why the network cannot be trained, in one sentence; None: it can."""
        return self._own_problem() or next(
            (found.sentence for found in self._misfits() if found.stops), None
        )

    def take(self, spec: NetworkSpec) -> None:
        """Edit another network; that can be undone, unless it is the first one."""
        self.editor.forget()
        if not self._state.spec.layers and not self._state.past:
            self._take(BuilderState(spec=spec, selected=0 if spec.layers else None))
        else:
            self._take(changed(self._state, spec, "take another network", selected=0))

    def set_data(self, data: DataFacts) -> None:
        """Say what the data looks like."""
        if data != self._data:
            self._data = data
            self._refresh()
            self._told()

    # --- its widgets

    def _make_controls(self) -> None:
        presets = [(preset.title, name) for name, preset in PRESETS.items()]
        self.preset = Dropdown(
            description="Begin with",
            options=[*presets, ("An empty network", _EMPTY)],
            style=_WIDE,
        )
        self.preset_button = self._button("Take this", self._take_preset)
        self.undo_button = self._button("↶ Undo", self._undo)
        self.redo_button = self._button("↷ Redo", self._redo)
        self.summary = widgets.HTML()
        self.misfits_box = widgets.VBox()
        self._misfits_shown: tuple[Misfit, ...] = ()
        self._remedies: list[Button] = []
        self.layers = LayerList(label="Layers. Arrow keys choose a row.")
        self.layers.observe(self._guarded(self._row_chosen), "selected")
        self.layers.on_action(self._guarded(self._act))
        kinds = [(f"{name} · {group}", name) for group, names in PALETTE.items() for name in names]
        self.kind = Dropdown(description="New layer", options=kinds, value="Dense", style=_WIDE)
        self.add_button = self._button("Add below", self._add)
        self.editor = LayerEditor(
            act=self._guarded(self._act),
            name=self._guarded(self._rename),
            inputs=self._guarded(lambda names: self._take(with_inputs(self._state, names))),
            options=self._guarded(lambda o, typed: self._take(with_options(self._state, o, typed))),
            mistaken=self._guarded(self._mistaken),
        )
        self.training: TrainingEditor | None = None
        self.graph = widgets.HTML()
        self.estimate = EstimateView()
        self.text = TextExchange(self._guarded(self._take_pasted))
        self.folds = {
            "training": WatchedFold("Task, loss, optimizer", [], self._open_training),
            "graph": WatchedFold("Graph", [self.graph], self._refresh),
            "estimate": WatchedFold("Memory and traffic", [self.estimate], self._refresh),
            "text": WatchedFold("Python, JSON, YAML", [self.text], self.text.wake),
        }
        keys = widgets.HTML(
            '<div class="sparkwright-advice">In the list: arrow keys choose a row, Alt with ↑ or ↓ '
            "moves it, Delete deletes it.</div>"
        )
        tools = row(self.preset, self.preset_button, self.undo_button, self.redo_button)
        adding = widgets.VBox([keys, row(self.kind, self.add_button)])
        columns = widgets.Box([widgets.VBox([self.layers, adding]), self.editor])
        columns.add_class("sparkwright-builder-columns")
        self.children = [
            *(tools, self.summary, self.misfits_box, columns),
            *self.folds.values(),
        ]

    def _button(self, text: str, pressed: Callable[[], None]) -> Button:
        button = Button(description=text)
        button.on_click(self._guarded(lambda _button: pressed()))
        return button

    def _open_training(self) -> None:
        self._loading.wait()
        if self.training is None:  # the largest of the forms, which many never open
            self.training = TrainingEditor(self._guarded(self._take_training))
            self.folds["training"].box.children = [self.training]
        self._refresh()

    # --- Keras, which takes seconds to load

    def wait(self) -> None:
        """Wait until Keras is loaded and everything is shown."""
        self._loading.wait()

    def _keras_loaded(self, _result: object) -> None:
        with self._lock:
            self._offer_all()
            self._refresh()
        self._told()

    def _keras_missing(self, error: BaseException) -> None:
        self._say(f"Keras cannot be loaded: {error}")

    def _offer_all(self) -> None:
        """Offer every layer of the installed Keras, and registered ones."""
        chosen = self.kind.value
        self.kind.options = [(f"{kind.name} · {kind.group}", kind.name) for kind in layer_kinds()]
        self.kind.value = chosen

    # --- what a person does

    def _row_chosen(self, change: Any) -> None:
        with self._lock:  # another thread may be showing what Keras has found
            if self._refreshing:
                return
        chosen = int(change["new"])
        self.editor.forget()
        self._take(selecting(self._state, None if chosen < 0 else chosen))

    def _act(self, what: str) -> None:
        before = self._state
        match what:
            case "up" | "down":
                self._take(moved(before, -1 if what == "up" else 1))
                if self._state is before and before.selected is not None:
                    self._say(f"The row is already the {'first' if what == 'up' else 'last'} one.")
            case "duplicate":
                self._take(duplicated(before))
            case "switch":
                self._take(switched(before))
            case _:
                self._take(removed(before))

    def _rename(self, name: str) -> None:
        try:
            self._take(renamed(self._state, name))
        except ConfigurationError as error:
            self.editor.complain_of_name(str(error))
            self._mistaken()

    def _add(self) -> None:
        self._take(added(self._state, str(self.kind.value), **self._data_options()))

    def _data_options(self) -> dict[str, Any]:
        if self.kind.value == "Input" and len(self._data.features) == 1:
            return {"shape": list(next(iter(self._data.features.values())))}
        return {}

    def _take_preset(self) -> None:
        name = str(self.preset.value)
        spec = NetworkSpec() if name == _EMPTY else preset_for(PRESETS[name], self._data)
        self.editor.forget()
        self._take(changed(self._state, spec, f"begin with {name}", selected=0))

    def _take_pasted(self, spec: NetworkSpec) -> None:
        self.editor.forget()
        self._take(changed(self._state, spec, "apply a text", selected=0))

    def _take_training(self, spec: NetworkSpec, what: str, typing: str) -> None:
        self._take(changed(self._state, spec, what, typing=typing))

    def _take_mended(self, spec: NetworkSpec) -> None:
        self._take(changed(self._state, spec, "fit the network to the data"))
        # The button that was pressed is gone, and the keyboard's focus with it.
        (self._remedies[0] if self._remedies else self.undo_button).focus()

    def _undo(self) -> None:
        what = self._state.undoes
        self._take(undone(self._state))
        self._say(f"Undone: {what}." if what else "There is nothing to undo.")

    def _redo(self) -> None:
        what = self._state.redoes
        self._take(redone(self._state))
        self._say(f"Done again: {what}." if what else "There is nothing to do again.")

    def _mistaken(self) -> None:
        self._refresh()
        self._told()

    # --- keeping what is shown up to date

    def _take(self, state: BuilderState) -> None:
        with self._lock:
            before, self._state = self._state, state
            self._refresh()
        if before.spec != state.spec:
            self._say("")
            self._told()

    def _own_problem(self) -> str | None:
        """What is wrong with the network itself, whatever the data is."""
        return self._mistake() or self.analysis.reason

    def _mistake(self) -> str:
        """What is wrong with a value that is being typed; empty: nothing."""
        typed = self.editor.mistake
        if typed and (selected := self._state.selected) is not None:
            return f"Row {selected + 1} ({self._state.spec.layers[selected].name}): {typed}"
        return self.training.mistake if self.training is not None else ""

    def _misfits(self) -> tuple[Misfit, ...]:
        return misfits(self._state.spec, self.analysis, self._data)

    def _refresh(self) -> None:
        with self._lock:
            self._refreshing = True
            try:
                self._show_state()
            finally:
                self._refreshing = False

    def _show_state(self) -> None:
        spec, selected = self._state.spec, self._state.selected
        was_chain = is_chain(self.analysis.rows)
        self.analysis = analysis_now(spec)
        rows = self.analysis.rows
        layer = None if selected is None else spec.layers[selected]
        above = rows[:selected]
        before = next((r.name for r in reversed(above) if r.enabled), "")
        self.editor.show(layer, [r.name for r in above], before)
        if selected is not None:
            self.editor.tell(rows[selected])
        outputs = [output.layer for output in spec.outputs]
        mistakes = {layer.name: self.editor.mistake} if layer is not None else {}
        self.layers.rows = layer_rows(rows, outputs=outputs, mistakes=mistakes)
        self.layers.selected = -1 if selected is None else selected
        problem = self._own_problem()
        if problem is None and self.problem is not None:
            problem = "The data does not fit the network, as told below."
        self.summary.value = summary_line(self.analysis, problem)
        self._show_misfits()
        if was_chain and not is_chain(rows) and not self.folds["graph"].opened:
            self.folds["graph"].set_opened(True)
            return  # the opening has brought all up to date
        if self.training is not None and self.folds["training"].opened:
            self.training.show(spec, self.analysis)
        if self.folds["estimate"].opened:
            self.estimate.show(spec)
        if self.folds["graph"].opened:
            self.graph.value = graph_svg(
                rows,
                name=spec.name,
                outputs=outputs,
                selected=-1 if selected is None else selected,
            )
        self.text.show(spec)

    def _show_misfits(self) -> None:
        found = self._misfits()
        if found == self._misfits_shown:
            return
        self._misfits_shown = found
        self._remedies = []
        before = self.misfits_box.children
        self.misfits_box.children = [self._misfit_box(misfit) for misfit in found]
        for box in before:
            close_all(box)

    def _misfit_box(self, misfit: Misfit) -> widgets.Widget:
        sentence = widgets.HTML(
            '<div class="sparkwright-alert sparkwright-is-warning" role="alert"><strong>'
            '<span aria-hidden="true">⚠</span> The data does not fit.</strong> '
            f"{escaped(misfit.sentence)}</div>"
        )
        mended = misfit.mended
        if mended is None:
            return widgets.VBox([sentence])
        button = self._button(misfit.remedy, lambda: self._take_mended(mended))
        self._remedies.append(button)
        return widgets.VBox([sentence, row(button)], _dom_classes=["sparkwright-misfit"])
