"""Forms generated from the options of a configuration, including nested configurations."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar

import ipywidgets as widgets

from sparkwright.configuration import (
    Configuration,
    NestedOption,
    nested_options,
    plain_options,
)
from sparkwright.errors import ConfigurationError
from sparkwright.options import Option

from ._fold import Fold
from ._forms import OptionField, OptionForm, alert
from ._part import grid

# Name of an option, preceded by those of the options that contain it; () is the configuration.
Path = tuple[str, ...]
ValueType = TypeVar("ValueType", bound=Configuration)
_OWN = "own"
_QUOTED = re.compile(r"`(\w+)")


def values_of(value: Configuration | type[Configuration]) -> dict[str, Any]:
    """Return the options of a configuration by name; for a class, the defaults of its form."""
    if isinstance(value, type):
        return {each.name: each.default for each in plain_options(value)}
    return {each.name: getattr(value, each.name) for each in fields(value)}  # type: ignore[arg-type]


def changed_options(kind: type[Any], values: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the options, including nested ones, that differ from their defaults."""
    found: dict[Path, Any] = {
        (each.name,): values[each.name]
        for each in plain_options(kind)
        if values[each.name] != each.default
    }
    for nested in nested_options(kind):
        held = values.get(nested.name)
        if (name := _kind_of(nested, held)) != nested.default:
            found[(nested.name,)] = name
        if isinstance(held, Configuration) and name != _OWN:
            inside = changed_options(type(held), values_of(held))
            found |= {(nested.name, *path): each for path, each in inside.items()}
    return found


def _kind_of(nested: NestedOption, value: Any) -> str | None:
    if value is None:
        return None
    return next((name for name, kind in nested.kinds.items() if type(value) is kind), _OWN)


class ConfigurationForm(widgets.VBox, Generic[ValueType]):
    """A form of all options of a configuration; each group of options is a collapsible section."""

    def __init__(
        self,
        value: ValueType | type[ValueType],
        *,
        names: Sequence[str] | None = None,
        check: Callable[[ValueType], object] = lambda _value: None,
    ) -> None:
        self.kind: type[Any] = value if isinstance(value, type) else type(value)
        self.values = values_of(value)  # the combination may be invalid
        # The most recent valid one; None before the first.
        self.value: Any = None if isinstance(value, type) else value
        self.valid: ValueType | None = self.value  # None: the current one is invalid
        self.problems: dict[Path, str] = {}  # () for the configuration as a whole
        self._check = check
        self._none_texts: dict[str, str | None] = {}
        self._listeners: list[Callable[[Path], None]] = []
        self._fields: dict[str, OptionField | NestedField] = {}
        by_group: dict[str, list[Option | NestedOption]] = {}
        for each in (*plain_options(self.kind), *nested_options(self.kind)):
            if names is None or each.name in names:
                by_group.setdefault(each.group, []).append(each)
        first = self._made(by_group.pop("", []))
        self.groups = {
            group: GroupFold(group, options, self._made) for group, options in by_group.items()
        }
        self.whole = widgets.HTML()
        super().__init__([*first, *self.groups.values(), self.whole])
        self.examine()

    @property
    def names(self) -> set[str]:
        """Options that have fields: those outside of sections, or in sections opened before."""
        return set(self._fields)

    @property
    def problem(self) -> str | None:
        """The first problem; None if there is none."""
        return next(iter(self.problems.values()), None)

    def on_change(self, callback: Callable[[Path], None]) -> None:
        """Call `callback(path)` when the value or the problem of an option has changed."""
        self._listeners.append(callback)

    def set(self, value: ValueType) -> None:
        """Show another configuration of the same class, without calling the callbacks."""
        self.show(values_of(value))

    def show(self, values: Mapping[str, Any]) -> None:
        """Show other values, without calling the callbacks."""
        self.values = dict(values)
        for name, field in self._fields.items():
            field.set(self.values[name])
        self.examine()

    def set_none_text(self, name: str, text: str | None) -> None:
        """Set the placeholder of an option; None restores its default."""
        self._none_texts[name] = text
        field = self._fields.get(name)
        if isinstance(field, OptionField):
            field.set_none_text(text)

    def field(self, *path: str) -> OptionField:
        """Return the field of an option and open its section; the kind field of a nested option."""
        for group in self.groups.values():
            if path[0] in group.names:
                group.set_opened(True)
        field = self._fields[path[0]]
        return field if isinstance(field, OptionField) else field.field(*path[1:])

    def examine(self) -> None:
        """Check the values and show the problems; call it when the result of `check` may change."""
        problems, typed = dict[Path, str](), dict[Path, str]()
        invalid = False
        for name, field in self._fields.items():
            field.complain("")
            if isinstance(field, NestedField):
                typed |= {(name, *path): text for path, text in field.problems.items()}
                invalid = invalid or field.is_invalid
            elif field.problem:
                typed[(name,)] = field.problem
        self.valid = None
        if not invalid:
            try:
                made = self.kind(**self.values)
                self._check(made)
                self.valid = self.value = made
            except ConfigurationError as error:
                named = [name for name in _QUOTED.findall(str(error)) if name in self.values]
                problems[tuple(named[:1])] = str(error)
        changed = changed_options(self.kind, self.values)
        for group in self.groups.values():
            if any(path[0] in group.names for path in problems if path):
                group.set_opened(True)
            group.count(sum(path[0] in group.names for path in changed))
        for path, sentence in problems.items():
            if path and path[0] in self._fields:
                self._fields[path[0]].complain(sentence)
        self.problems = {**problems, **typed}
        self.whole.value = alert(problems.get((), ""))

    def _made(self, options: Sequence[Option | NestedOption]) -> list[widgets.Widget]:
        nested: list[NestedField] = []
        plain: list[OptionField] = []
        for each in options:
            value = self.values.get(each.name)
            if isinstance(each, NestedOption):
                nested.append(NestedField(each, value, self._edited))
                self._fields[each.name] = nested[-1]
            else:
                plain.append(OptionField(each, value, self._edited))
                plain[-1].set_none_text(self._none_texts.get(each.name))
                self._fields[each.name] = plain[-1]
        return [grid(*plain), *nested]

    def _edited(self, name: str, *inner: str) -> None:
        self.values[name] = self._fields[name].value
        self.examine()
        for callback in list(self._listeners):
            callback((name, *inner))


class GroupFold(Fold):
    """A collapsible group of options, whose fields are created when it is first opened."""

    def __init__(
        self,
        name: str,
        options: Sequence[Option | NestedOption],
        make: Callable[[Sequence[Option | NestedOption]], list[widgets.Widget]],
    ) -> None:
        self._name, self._options, self._make = name, options, make
        self.names = {each.name for each in options}
        super().__init__(name, [])

    def set_opened(self, opened: bool) -> None:
        if opened and not self.box.children:
            self.box.children = self._make(self._options)
        super().set_opened(opened)

    def count(self, changed: int) -> None:
        """Show the number of options that differ from their defaults."""
        self.set_title(f"{self._name} ({changed} changed)" if changed else self._name)


class NestedField(widgets.VBox):
    """A nested option: a field for its kind, and a form for the options of this kind."""

    def __init__(self, nested: NestedOption, value: Any, changed: Callable[..., None]) -> None:
        self._option, self._changed, self.value = nested, changed, value
        self._own = value if _kind_of(nested, value) == _OWN else None
        self._forms: dict[str, ConfigurationForm[Any]] = {}
        self.kind = OptionForm(_kind_option(nested, has_own=self._own is not None))
        self.kind.on_change(lambda _name: self._kind_chosen())
        super().__init__()
        self.add_class("sparkwright-nested")
        self.set(value)

    @property
    def form(self) -> ConfigurationForm[Any] | None:
        """The form of the selected kind; None if it has none."""
        return self._forms.get(self._chosen or "")

    @property
    def is_invalid(self) -> bool:
        return self.form is not None and self.form.valid is None

    @property
    def problems(self) -> dict[Path, str]:
        """The problems of the form of the selected kind."""
        return {} if self.form is None else self.form.problems

    def set(self, value: Any) -> None:
        """Show another object, without calling the callback."""
        self.value = value
        self._choose(_kind_of(self._option, value))
        if self.form is not None:
            self.form.set(value)

    def field(self, *path: str) -> OptionField:
        """Return the field of an inner option, or without `path`, of the kind."""
        if not path:
            return self.kind.fields[self._option.name]
        if self.form is None:
            raise KeyError(path)
        return self.form.field(*path)

    def complain(self, sentence: str) -> None:
        """Show a problem beside the kind; an empty sentence removes it."""
        for field in self.kind.fields.values():
            field.complain(sentence)

    def _choose(self, kind: str | None) -> None:
        self._chosen = kind
        if kind is not None and kind in self._option.kinds and kind not in self._forms:
            made = ConfigurationForm[Any](self._option.kinds[kind])
            made.on_change(lambda path: self._edited(*path))
            self._forms[kind] = made
        for name, form in self._forms.items():
            form.layout.display = None if name == kind else "none"
        self.kind.set(
            {name: kind if len(self._option.kinds) > 1 else bool(kind) for name in self.kind.fields}
        )
        self.children = [self.kind, *self._forms.values()]

    def _kind_chosen(self) -> None:
        kind = next(iter(self.kind.values.values()))
        if isinstance(kind, bool):
            kind = next(iter(self._option.kinds)) if kind else None
        self._choose(kind)
        if self.form is not None:
            self.form.show(values_of(self._option.kinds[str(kind)]))
        self._edited()

    def _edited(self, *inner: str) -> None:
        if self.form is None:
            self.value = self._own if self._chosen == _OWN else None
        elif self.form.valid is not None:
            self.value = self.form.valid
        self._changed(self._option.name, *inner)


def _kind_option(nested: NestedOption, *, has_own: bool) -> list[Option]:
    texts: dict[str, Any] = {"name": nested.name, "label": nested.label, "help": nested.help}
    if len(nested.kinds) > 1 or has_own:
        texts |= {"optional": nested.optional, "none_text": nested.none_text}
        choices = (*nested.kinds, *([_OWN] if has_own else []))
        return [Option(kind="choice", default=nested.default, choices=choices, **texts)]
    if not nested.optional:
        return []
    return [Option(kind="flag", default=nested.default is not None, **texts)]
