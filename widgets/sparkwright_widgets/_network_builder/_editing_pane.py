"""The pane that edits a network: list of layers, selected row, training settings."""

import re
import threading
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import (
    PRESETS,
    NetworkSpec,
    add_layer,
    analysis_now,
    layer_kinds,
)
from sparkwright.networks.keras_catalog import is_loaded, load
from sparkwright.networks.palette import PALETTE
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import (
    Background,
    Button,
    Dropdown,
    Fold,
    TextEditor,
    advice,
    row,
    swap,
)

from ._builder_state import BuilderState
from ._data_fit import DataFacts, Fix, Misfit, misfits, preset_for
from ._layer_editor import LayerEditor
from ._pane import EMPTY, NetworkPane, PresetGallery, preset_cards
from ._training_editor import TrainingEditor

LONGEST_TEXT = 1_000_000  # characters; enough for thousands of layers

# Title and writer of each format, by file suffix.
FORMS: dict[str, tuple[str, Callable[[NetworkSpec], str]]] = {
    "py": ("Python code", NetworkSpec.to_code),
    "json": ("JSON", NetworkSpec.to_json),
    "yaml": ("YAML", NetworkSpec.to_yaml),
}
_CODE = re.compile(r"^\s*(import|from)\s+\w|^\s*\w+ = keras\.", flags=re.MULTILINE)
_KEYS = "Arrow keys select a layer. Alt+↑ or Alt+↓ moves it. Delete removes it."


class EditingPane(NetworkPane):
    """Edits a network."""

    def __init__(
        self,
        *,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        say: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._guarded, self._say, self._changed = guarded, say, changed
        self._lock = threading.RLock()
        self._state = BuilderState()
        self._data = DataFacts()
        self._misfits: tuple[Misfit, ...] = ()
        self._notes: tuple[Misfit, ...] = ()
        self._refreshing = False
        self._loading = Background("keras")
        super().__init__()
        self._make_controls()
        if is_loaded():
            self._offer_all()
        else:
            self._loading.begin(load, then=self._keras_loaded, otherwise=self._keras_missing)

    @property
    def spec(self) -> NetworkSpec:
        return self._state.spec

    @property
    def known(self) -> NetworkSpec:
        return self.spec

    @property
    def problem(self) -> str | None:
        """Why the network cannot be trained, in one sentence; None if it can."""
        stops = (found.sentence for found in self._misfits if found.stops)
        return self._own_problem or next(stops, None)

    @property
    def _own_problem(self) -> str | None:
        """The problem of the network itself, regardless of the data."""
        typed = self.editor.mistake
        if typed and (selected := self._state.selected) is not None:
            return f"Row {selected + 1} ({self.spec.layers[selected].name}): {typed}"
        mistake = self.training.mistake if self.training is not None else ""
        return mistake or self.analysis.reason

    def take(self, spec: NetworkSpec, what: str = "") -> None:
        """Replace the network; undoable except for the first. `what` describes the change."""
        self.editor.discard_typed()
        if what or self.spec.layers or self._state.past:
            self._change(spec, what or "replace the network", 0)
        else:
            self._take(BuilderState(spec=spec, selected=0 if spec.layers else None))
            self.presets.set_opened(not spec.layers)

    def _take_text(self, text: str, _form: str) -> bool:
        self.take(read(text), "apply a text")
        return True

    def set_data(self, data: DataFacts) -> None:
        if data != self._data:
            self._data = data
            self._show_presets()
            self._mistaken()

    # --- widgets

    def _make_controls(self) -> None:
        self.gallery = PresetGallery(self._guarded(self._take_preset))
        self.presets = Fold("Presets", [self.gallery])
        self.undo_button = self._button("↶ Undo", self._undo)
        self.redo_button = self._button("↷ Redo", self._redo)
        self.notes_box = widgets.VBox(_dom_classes=["sparkwright-notes"])
        self._fix_buttons: list[Button] = []
        self.layers.observe(self._guarded(self._row_chosen), "selected")
        self.layers.on_action(self._guarded(lambda what: self.editor.act(what)))
        kinds = [(f"{name} · {group}", name) for group, names in PALETTE.items() for name in names]
        self.kind = Dropdown(description="New layer", options=kinds, value="Dense")
        self.add_button = self._button("Add below", self._add)
        mistaken = self._guarded(self._mistaken)
        self.editor = LayerEditor(self._guarded(self._change), self._say, mistaken)
        self.training: TrainingEditor | None = None  # created when opened: it is the largest form
        self.text = TextEditor(
            "Network as text",
            lambda form: FORMS[form][1](self.spec),
            self._take_text,
            forms=[(title, form) for form, (title, _) in FORMS.items()],
            title=lambda: self.name,
        )
        self.folds = {
            "training": self._fold("Task, loss, optimizer", self._open_training),
            "text": self._fold("Python, JSON, YAML", self._refresh, self.text),
        }
        tools = row(self.kind, self.add_button, self.undo_button, self.redo_button)
        self.children = [
            *(self.presets, self.summary, self.notes_box),
            self.columns(
                widgets.VBox([self.layers, tools, widgets.HTML(advice(_KEYS))]), self.editor
            ),
            *self.folds.values(),
        ]

    def _fold(self, title: str, opened: Callable[[], None], *inside: widgets.Widget) -> Fold:
        """A fold whose content is refreshed when it is opened."""
        fold = Fold(title, inside)
        fold.box.layout.observe(lambda _change: opened() if fold.opened else None, "display")
        return fold

    def _button(self, text: str, pressed: Callable[[], None]) -> Button:
        button = Button(description=text)
        button.on_click(self._guarded(lambda _button: pressed()))
        return button

    def _open_training(self) -> None:
        self._loading.wait()
        if self.training is None:
            change = self._guarded(
                lambda spec, what, typing: self._change(spec, what, None, typing)
            )
            self.training = TrainingEditor(change, self._guarded(self._mistaken))
            self.folds["training"].box.children = [self.training]
        self._refresh()

    # --- loading Keras, which takes seconds

    def wait(self) -> None:
        """Wait until Keras is loaded and the widgets are updated."""
        self._loading.wait()

    def _keras_loaded(self, _result: object) -> None:
        with self._lock:
            self._offer_all()
            self._refresh()
        self._changed()

    def _keras_missing(self, error: BaseException) -> None:
        self._say(f"Keras cannot be loaded: {error}")
        self._mistaken()

    def _offer_all(self) -> None:
        """Offer every layer of the installed Keras and every registered layer."""
        chosen = self.kind.value
        self.kind.options = [(f"{kind.name} · {kind.group}", kind.name) for kind in layer_kinds()]
        self.kind.value = chosen
        self._show_presets()

    def _show_presets(self) -> None:
        self.gallery.cards = preset_cards(self._data, is_loaded=is_loaded())

    # --- user actions

    def _row_chosen(self, change: Any) -> None:
        with self._lock:  # another thread may be refreshing after Keras has loaded
            if self._refreshing:
                return
        chosen = int(change["new"])
        self.editor.discard_typed()
        self._take(self._state.selecting(None if chosen < 0 else chosen))

    def _add(self) -> None:
        """Add a layer below the selected row, or at the end."""
        spec, selected = self.spec, self._state.selected
        after = len(spec.layers) - 1 if selected is None else selected
        kind = str(self.kind.value)
        is_only = kind == "Input" and len(self._data.features) == 1
        options = {"shape": list(*self._data.features.values())} if is_only else {}
        added = add_layer(spec, kind, after=after, options=options)
        self._change(added, f"add {added.layers[after + 1].name}", after + 1)

    def _take_preset(self, name: str) -> None:
        spec = NetworkSpec() if name == EMPTY else preset_for(PRESETS[name], self._data)
        self.take(spec, f"use the preset {name}")

    def _fix(self, fix: Fix) -> None:
        self.editor.discard_typed()
        self._change(fix.spec, f"“{fix.label}”")
        # The pressed button was removed: move the keyboard focus to another one.
        (self._fix_buttons[0] if self._fix_buttons else self.undo_button).focus()

    def _undo(self) -> None:
        what = self._state.past[-1].what if self._state.past else ""
        self._take(self._state.undone())
        self._say(f"Undone: {what}." if what else "There is nothing to undo.")

    def _redo(self) -> None:
        what = self._state.future[-1].what if self._state.future else ""
        self._take(self._state.redone())
        self._say(f"Redone: {what}." if what else "There is nothing to redo.")

    def _mistaken(self) -> None:
        self._refresh()
        self._changed()

    # --- refreshing

    def _change(
        self, spec: NetworkSpec, what: str, selected: int | None = None, typing: str = ""
    ) -> None:
        self._take(self._state.changed(spec, what, selected=selected, typing=typing))

    def _take(self, state: BuilderState) -> None:
        with self._lock:
            before, self._state = self._state, state
            self._refresh()
        if before.spec != state.spec:
            self._say("")
            self._changed()

    def _refresh(self) -> None:
        with self._lock:
            self._refreshing = True
            try:
                self._show_state()
            finally:
                self._refreshing = False

    def _show_state(self) -> None:
        spec, selected = self.spec, self._state.selected
        self.analysis = analysis_now(spec)
        self.editor.show(spec, selected, self.analysis.rows)
        self._misfits = misfits(spec, self.analysis, self._data)
        if self.training is not None and self.folds["training"].opened:
            self.training.show(spec, self.analysis)
        self._show_notes()
        problem = self._own_problem
        if problem is None and self.problem is not None:
            problem = "The network does not fit the data."
        mistakes = {} if selected is None else {spec.layers[selected].name: self.editor.mistake}
        self.show_network(problem, -1 if selected is None else selected, mistakes)
        if self.folds["text"].opened:
            self.text.follow()

    def _show_notes(self) -> None:
        """Show mismatches with the data, and their fixes."""
        if self._misfits == self._notes:
            return
        self._notes, self._fix_buttons = self._misfits, []
        swap(self.notes_box, *(self._note(note) for note in self._notes))

    def _note(self, note: Misfit) -> widgets.Widget:
        buttons = [self._button(f.label, lambda fix=f: self._fix(fix)) for f in note.fixes]
        self._fix_buttons += buttons
        sentence = widgets.HTML(
            '<div role="alert"><strong><span aria-hidden="true">⚠</span> The data does not fit.'
            f"</strong> {escaped(note.sentence)}</div>"
        )
        box = row(sentence, *buttons)
        box.add_class("sparkwright-alert").add_class("sparkwright-is-warning")
        return box


def read(text: str) -> NetworkSpec:
    """Read a network from JSON or YAML, without executing code."""
    if not text.strip():
        raise ConfigurationError("the text is empty. Paste a network's JSON or YAML.")
    if len(text) > LONGEST_TEXT:
        raise ConfigurationError(
            f"the text must have at most {LONGEST_TEXT} characters. Received: {len(text)}."
        )
    if text.lstrip().startswith("{"):
        return NetworkSpec.from_json(text)
    try:
        return NetworkSpec.from_yaml(text)
    except ConfigurationError:
        if _CODE.search(text):
            raise ConfigurationError(
                "the text must be JSON or YAML. Received: Python code. Run the code in a cell, and "
                "pass its model: `NetworkBuilder(model)`."
            ) from None
        raise
