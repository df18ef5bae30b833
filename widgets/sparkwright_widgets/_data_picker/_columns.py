"""Which column is the label, what it means, and which columns are features."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.data import ColumnLook, DataSource
from sparkwright.errors import ConfigurationError
from sparkwright_widgets._format import count_text
from sparkwright_widgets._ui import (
    Button,
    Checkbox,
    Dropdown,
    Fold,
    Text,
    alert,
    close_all,
    row,
)

from ._looks import kind_text

_MOST_BOXES = 60
_TASKS = (
    ("a class (classification)", "classification"),
    ("a number (regression)", "regression"),
    ("something else, or nothing", "other"),
)


class ColumnChooser(widgets.VBox):
    """Label, task, classes and features of a source of tables.

    Attributes:
        problem: why what the controls say cannot be meant, in a sentence; empty: it can.

    Args:
        guarded: shows what a callback raises.
        changed: gets a function of the source to the new one.
    """

    def __init__(
        self,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        changed: Callable[[Callable[[DataSource], DataSource]], None],
    ) -> None:
        self._changed = changed
        self._guarded = guarded
        self._setting = False
        self.problem = ""
        self.alert = widgets.HTML()
        self._columns: tuple[ColumnLook, ...] = ()
        self._shown: tuple[str, ...] | None = None
        self.boxes: dict[str, Checkbox] = {}
        self.label = Dropdown(description="Label (what to predict)", options=[("(none)", None)])
        self.task = Dropdown(description="It is", options=_TASKS)
        self.classes = Text(
            description="Classes", placeholder="found in the data", continuous_update=False
        )
        self.names = Text(
            description="Features", placeholder="all but the label", continuous_update=False
        )
        for control in (self.label, self.task, self.classes, self.names):
            control.observe(guarded(self._chosen), "value")
        self.every = Button(description="All", tooltip="Make all columns but the label features")
        self.nothing = Button(description="None", tooltip="Leave all columns out")
        self.every.on_click(guarded(lambda _button: self._tick(True)))
        self.nothing.on_click(guarded(lambda _button: self._tick(False)))
        self.grid = widgets.Box()
        self.grid.add_class("sparkwright-grid")
        self.fold = Fold("Features", [row(self.every, self.nothing), self.grid])
        fields = widgets.Box([_field(self.label), _field(self.task), _field(self.classes)])
        fields.add_class("sparkwright-grid")
        self._names = _field(self.names)
        super().__init__([fields, self.fold, self._names, self.alert])

    def complain(self, sentence: str) -> None:
        """Show what is wrong with what was chosen; an empty sentence takes that back."""
        self.problem = sentence
        self.alert.value = alert(sentence)

    def show(
        self, source: DataSource, columns: Sequence[ColumnLook], *, afresh: bool = False
    ) -> None:
        """Show what a source chooses of the columns that were seen.

        Args:
            source: what is chosen.
            columns: those that were seen.
            afresh: whether what was chosen, but could not be meant, is to be forgotten; default
                False: it stays in view.
        """
        if afresh or tuple(c.name for c in columns) != tuple(c.name for c in self._columns):
            self.complain("")
        if self.problem:
            return
        self._setting = True
        try:
            self._show(source, tuple(columns))
        finally:
            self._setting = False

    def _show(self, source: DataSource, columns: tuple[ColumnLook, ...]) -> None:
        self._columns = columns
        names = [column.name for column in columns]
        labels = names if source.label is None or source.label in names else [*names, source.label]
        options = [("(none)", None), *((name, name) for name in labels)]
        if self.label.options != tuple(options):
            self.label.options = options
        self.label.value = source.label
        self.task.value = source.task
        # Texts that mean the same stay as they were typed.
        if _classes_of(self.classes.value) != source.classes:
            self.classes.value = _classes_text(source.classes)
        self.classes.layout.display = None if source.task == "classification" else "none"
        if _names_of(self.names.value) != source.features:
            self.names.value = ", ".join(source.features)
        has_boxes = 0 < len(names) <= _MOST_BOXES
        self.fold.layout.display = None if has_boxes else "none"
        self._names.layout.display = "none" if has_boxes else None
        if has_boxes:
            self._show_boxes(source)

    def _show_boxes(self, source: DataSource) -> None:
        names = tuple(column.name for column in self._columns)
        if self._shown != names:
            old = list(self.grid.children)
            self._shown = names
            self.boxes = {c.name: self._box(c) for c in self._columns}
            self.grid.children = tuple(self.boxes.values())
            for box in old:
                close_all(box)
        other = {source.label, source.options.get("weights")}
        kinds = {c.name: _kind(c, c.name in source.categories) for c in self._columns}
        ticked = 0
        for name, box in self.boxes.items():
            box.value = name in source.features if source.features else name not in other
            box.disabled = name == source.label
            box.description = f"{name} ({'the label' if box.disabled else kinds[name]})"
            ticked += box.value
        usable = len(names) - (source.label in names)
        self.fold.set_title(f"Features: {count_text(ticked)} of {count_text(usable)} columns")

    def _box(self, column: ColumnLook) -> Checkbox:
        box = Checkbox(description=column.name)
        box.observe(self._guarded(self._chosen), "value")
        return box

    def _tick(self, value: bool) -> None:
        self._setting = True
        try:
            for box in self.boxes.values():
                box.value = value and not box.disabled
        finally:
            self._setting = False
        self._chosen(None)

    def _chosen(self, _change: Any) -> None:
        if self._setting:
            return
        self._changed(self._applied)

    def _applied(self, source: DataSource) -> DataSource:
        """`source` with what the controls say.

        Raises:
            ConfigurationError: if that cannot be meant.
        """
        label = self.label.value
        kinds = {column.name: column.kind for column in self._columns}
        if self._names.layout.display == "none":
            ticked = [name for name, box in self.boxes.items() if box.value and name != label]
            usable = [name for name in self.boxes if name not in (label, _weights(source))]
            if usable and not ticked:
                # No features at all would stand for all of them.
                raise ConfigurationError("At least one column must be a feature. Tick one.")
            features = () if ticked == usable else tuple(ticked)
        else:
            features = _names_of(self.names.value)
        # Of columns that were not seen yet, categories are all that is known.
        known = features or tuple(dict.fromkeys((*kinds, *source.categories)))
        used = [name for name in known if name not in (label, _weights(source))]
        categories = tuple(
            name for name in used if kinds.get(name) == "text" or name in source.categories
        )
        can_have = source.format in ("csv", "parquet", "arrow")
        return replace(
            source,
            label=label,
            features=features,
            categories=categories if can_have else (),
            task=self.task.value,
            classes=_classes_of(self.classes.value),
        )


def _weights(source: DataSource) -> Any:
    return source.options.get("weights")


def _kind(column: ColumnLook, is_category: bool) -> str:
    as_category = is_category or column.kind == "text"
    return f"{kind_text(column)}, as a category" if as_category else kind_text(column)


def _names_of(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _classes_text(classes: Any) -> str:
    if classes == "infer":
        return ""
    return str(classes) if isinstance(classes, int) else ", ".join(classes)


def _classes_of(text: str) -> Any:
    """Nothing: found in the data; a count; or names."""
    given = _names_of(text)
    if not given:
        return "infer"
    if len(given) == 1 and given[0].isdigit():
        return int(given[0])
    return given


def _field(control: Any) -> widgets.VBox:
    box = widgets.VBox([control])
    box.add_class("sparkwright-field")
    return box
