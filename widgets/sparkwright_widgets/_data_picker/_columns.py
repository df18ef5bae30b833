"""Choose the label column, the task, the classes and the feature columns."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.data import ColumnPreview, DataSource
from sparkwright.errors import ConfigurationError
from sparkwright_widgets._format import count_text
from sparkwright_widgets._ui import (
    Button,
    Checkbox,
    Dropdown,
    Fold,
    Text,
    alert,
    field,
    grid,
    row,
    swap,
)

from ._looks import kind_text

_MOST_BOXES = 60
_TASKS = (
    ("classification (the label is a class)", "classification"),
    ("regression (the label is a number)", "regression"),
    ("other, or no label", "other"),
)


class ColumnChooser(widgets.VBox):
    """Controls for the label, task, classes and features of tabular data."""

    def __init__(
        self,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        # Called with a function that maps the old source to the new one.
        changed: Callable[[Callable[[DataSource], DataSource]], None],
    ) -> None:
        self._changed = changed
        self._guarded = guarded
        self._setting = False
        self.problem = ""  # why the choice is invalid; empty: it is valid
        self.alert = widgets.HTML()
        self._columns: tuple[ColumnPreview, ...] = ()
        self.boxes: dict[str, Checkbox] = {}
        self.label = Dropdown(description="Label (column to predict)", options=[("(none)", None)])
        self.task = Dropdown(description="Task", options=_TASKS)
        self.classes = Text(
            description="Classes", placeholder="inferred from the data", continuous_update=False
        )
        self.names = Text(
            description="Features",
            placeholder="all columns except the label",
            continuous_update=False,
        )
        for control in (self.label, self.task, self.classes, self.names):
            control.observe(guarded(self._chosen), "value")
        self.every = Button(description="All", tooltip="Select all columns except the label")
        self.nothing = Button(description="None", tooltip="Clear the selection")
        self.every.on_click(guarded(lambda _button: self._tick(True)))
        self.nothing.on_click(guarded(lambda _button: self._tick(False)))
        self.grid = grid()
        self.fold = Fold("Features", [row(self.every, self.nothing), self.grid])
        fields = grid(field(self.label), field(self.task), field(self.classes))
        self._names = field(self.names)
        super().__init__([fields, self.fold, self._names, self.alert])

    def complain(self, sentence: str) -> None:
        """Show a problem with the choice; an empty sentence clears it."""
        self.problem = sentence
        self.alert.value = alert(sentence)

    def show(
        self, source: DataSource, columns: Sequence[ColumnPreview], *, reset: bool = False
    ) -> None:
        """Show the columns that a source selects; with `reset`, also replace an invalid choice."""
        if reset or [c.name for c in columns] != [c.name for c in self._columns]:
            self.complain("")
        if self.problem:
            return
        with self._quietly():
            self._columns = tuple(columns)
            self._show(source)

    @contextlib.contextmanager
    def _quietly(self) -> Generator[None]:
        self._setting = True
        try:
            yield
        finally:
            self._setting = False

    def _show(self, source: DataSource) -> None:
        names = [column.name for column in self._columns]
        labels = dict.fromkeys([*names, *([source.label] if source.label else [])])
        options = (("(none)", None), *((name, name) for name in labels))
        if self.label.options != options:
            self.label.options = options
        self.label.value = source.label
        self.task.value = source.task
        # Keep the typed text if it has the same value.
        if _classes_of(self.classes.value) != source.classes:
            self.classes.value = _classes_text(source.classes)
        self.classes.layout.display = None if source.task == "classification" else "none"
        if _names_of(self.names.value) != source.features:
            self.names.value = ", ".join(source.features)
        has_boxes = 0 < len(names) <= _MOST_BOXES
        self.fold.layout.display = None if has_boxes else "none"
        self._names.layout.display = "none" if has_boxes else None
        if not has_boxes:
            return
        if list(self.boxes) != names:
            self.boxes = {name: Checkbox(description=name) for name in names}
            for box in self.boxes.values():
                box.observe(self._guarded(self._chosen), "value")
            swap(self.grid, *self.boxes.values())
        used = source.features or _usable(source, names)
        for column, box in zip(self._columns, self.boxes.values(), strict=True):
            box.value = column.name in used
            box.disabled = column.name == source.label
            is_category = column.kind == "text" or column.name in source.categories
            kind = f"{kind_text(column)}{', categorical' if is_category else ''}"
            box.description = f"{column.name} ({'label' if box.disabled else kind})"
        ticked = sum(box.value for box in self.boxes.values())
        usable = len(names) - (source.label in names)
        self.fold.set_title(f"Features: {count_text(ticked)} of {count_text(usable)} columns")

    def _tick(self, value: bool) -> None:
        with self._quietly():
            for box in self.boxes.values():
                box.value = value and not box.disabled
        self._chosen(None)

    def _chosen(self, _change: Any) -> None:
        if not self._setting:
            self._changed(self._applied)

    def _applied(self, source: DataSource) -> DataSource:
        """Return `source` with the choice; raise ConfigurationError if the choice is invalid."""
        source = replace(source, label=self.label.value, features=())
        kinds = {column.name: column.kind for column in self._columns}
        features = _names_of(self.names.value)
        if self._names.layout.display == "none":
            usable = _usable(source, self.boxes)
            features = tuple(n for n, box in self.boxes.items() if box.value and n != source.label)
            if usable and not features:
                # An empty tuple means all columns.
                raise ConfigurationError("At least one column must be a feature. Select one.")
            features = () if features == usable else features
        # Before the preview, only the names of the categorical columns are known.
        known = features or tuple(dict.fromkeys((*kinds, *source.categories)))
        categories = tuple(
            name
            for name in _usable(source, known)
            if kinds.get(name) == "text" or name in source.categories
        )
        return replace(
            source,
            features=features,
            categories=categories if source.format in ("csv", "parquet", "arrow") else (),
            task=self.task.value,
            classes=_classes_of(self.classes.value),
        )


def _usable(source: DataSource, names: Iterable[str]) -> tuple[str, ...]:
    """Names of the columns that are neither the label nor the weights."""
    return tuple(n for n in names if n not in (source.label, source.options.get("weights")))


def _names_of(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _classes_text(classes: Any) -> str:
    if classes == "infer":
        return ""
    return str(classes) if isinstance(classes, int) else ", ".join(classes)


def _classes_of(text: str) -> Any:
    """Parse the classes: "infer" if the text is empty, a count, or names."""
    given = _names_of(text)
    return int(given[0]) if len(given) == 1 and given[0].isdigit() else given or "infer"
