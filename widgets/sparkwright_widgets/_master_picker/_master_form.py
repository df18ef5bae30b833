"""Forms for the options of a training master: the usual ones at once, the others in folds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright.configuration import NestedOption, nested_options, plain_options
from sparkwright.masters import TrainingMaster
from sparkwright.options import Option
from sparkwright_widgets._ui import Fold, OptionForm

from ._draft import OWN, Draft, Path

Edited = Callable[[Path, Any], None]


class MasterForm:
    """All options of one class of masters.

    Attributes:
        usual: the options that most people change.
        groups: folds with the others, by the name of the group.

    Args:
        draft: what to show.
        edited: called with the option and its value when somebody has typed.
    """

    def __init__(self, draft: Draft, edited: Edited) -> None:
        options = plain_options(draft.kind)
        self.usual = _form([each for each in options if not each.group], draft, (), edited)
        self.groups = {
            name: GroupFold(name, draft, edited) for name in _group_names(draft.kind) if name
        }
        self.show(draft)

    @property
    def problems(self) -> dict[Path, str]:
        """What was typed that cannot be meant."""
        found: dict[Path, str] = {(name,): text for name, text in self.usual.problems.items()}
        for group in self.groups.values():
            found |= group.problems
        return found

    def show(self, draft: Draft) -> None:
        """Show other values."""
        self.usual.set({name: draft.value((name,)) for name in self.usual.fields})
        for group in self.groups.values():
            group.show(draft)

    def complain(self, draft: Draft, problems: Mapping[Path, str]) -> None:
        """Say at each option what is wrong with it; folds with a problem open."""
        _complain(self.usual, (), problems)
        for group in self.groups.values():
            group.complain(draft, problems)


class GroupFold(Fold):
    """The options of one group; its fields are made when it is opened for the first time."""

    def __init__(self, name: str, draft: Draft, edited: Edited) -> None:
        self._name, self._draft, self._edited = name, draft, edited
        self._made = False
        self._form: OptionForm | None = None
        self.nested: dict[str, NestedForm] = {}
        self._options = [each for each in plain_options(draft.kind) if each.group == name]
        self._nested = [each for each in nested_options(draft.kind) if each.group == name]
        super().__init__(name, [])

    @property
    def form(self) -> OptionForm:
        """The fields, those of nested objects excepted; opens the fold."""
        self.set_opened(True)
        assert self._form is not None
        return self._form

    @property
    def problems(self) -> dict[Path, str]:
        """What was typed that cannot be meant."""
        plain = self._form.problems if self._form is not None else {}
        found: dict[Path, str] = {(name,): text for name, text in plain.items()}
        for nested in self.nested.values():
            found |= nested.problems
        return found

    def set_opened(self, opened: bool) -> None:
        """Show or hide what is inside."""
        if opened and not self._made:
            self._make()
        super().set_opened(opened)

    def show(self, draft: Draft) -> None:
        """Show other values."""
        self._draft = draft
        if self._form is not None:
            self._form.set({name: draft.value((name,)) for name in self._form.fields})
        for nested in self.nested.values():
            nested.show(draft)
        self._count(draft)

    def complain(self, draft: Draft, problems: Mapping[Path, str]) -> None:
        """Say at each option what is wrong with it."""
        self._draft = draft
        names = {*(each.name for each in self._options), *(each.name for each in self._nested)}
        if not self.opened and any(path and path[0] in names for path in problems):
            self.set_opened(True)
        if self._form is not None:
            _complain(self._form, (), problems)
        for nested in self.nested.values():
            nested.complain(problems)
        self._count(draft)

    def _make(self) -> None:
        self._made = True
        self._form = _form(self._options, self._draft, (), self._edited)
        self.nested = {
            each.name: NestedForm(each, self._draft, self._edited) for each in self._nested
        }
        self.box.children = [self._form, *self.nested.values()]

    def _count(self, draft: Draft) -> None:
        names = {*(each.name for each in self._options), *(each.name for each in self._nested)}
        count = sum(path[0] in names for path in draft.changed())
        self._title = f"{self._name} ({count} changed)" if count else self._name
        super().set_opened(self.opened)


class NestedForm(widgets.VBox):
    """An option that is an object: which kind, and that kind's options."""

    def __init__(self, nested: NestedOption, draft: Draft, edited: Edited) -> None:
        self._option, self._edited = nested, edited
        self._forms: dict[str, OptionForm] = {}
        self.kind = OptionForm(_kind_option(nested, has_own=nested.name in draft.own))
        self.kind.on_change(lambda _name: self._kind_chosen())
        super().__init__()
        self.add_class("sparkwright-nested")
        self.show(draft)

    @property
    def form(self) -> OptionForm | None:
        """The fields of the kind that is chosen; None: it has none."""
        return self._forms.get(self._chosen or "")

    @property
    def problems(self) -> dict[Path, str]:
        """What was typed that cannot be meant."""
        inside = self.form.problems if self.form is not None else {}
        name = self._option.name
        return {(name, option): text for option, text in inside.items()}

    def show(self, draft: Draft) -> None:
        """Show other values."""
        name = self._option.name
        self._chosen: str | None = draft.value((name,))
        shown = self._chosen if len(self._option.kinds) > 1 else self._chosen is not None
        self.kind.set({each: shown for each in self.kind.fields})
        if self._chosen is not None and self._chosen != OWN:
            options = plain_options(self._option.kinds[self._chosen])
            if self._chosen not in self._forms:
                self._forms[self._chosen] = _form(options, draft, (name,), self._edited)
            self._forms[self._chosen].set(
                {each.name: draft.value((name, each.name)) for each in options}
            )
        self._arrange()

    def complain(self, problems: Mapping[Path, str]) -> None:
        """Say at each option what is wrong with it."""
        name = self._option.name
        if self.form is not None:
            _complain(self.form, (name,), problems)
        _complain(self.kind, (), {(name,): problems.get((name,), "")})

    def _kind_chosen(self) -> None:
        value = next(iter(self.kind.values.values()))
        if value is False:
            value = None
        elif value is True:
            value = next(iter(self._option.kinds))
        self._edited((self._option.name,), value)

    def _arrange(self) -> None:
        children: list[widgets.Widget] = [self.kind] if self.kind.fields else []
        if self.form is not None:
            children.append(self.form)
        self.children = children


def _form(options: Any, draft: Draft, place: Path, edited: Edited) -> OptionForm:
    plain = [replace(option, group="") for option in options]
    values = {option.name: draft.value((*place, option.name)) for option in plain}
    form = OptionForm(plain, values)
    form.on_change(lambda name: edited((*place, name), form.fields[name].value))
    return form


def _kind_option(nested: NestedOption, *, has_own: bool) -> list[Option]:
    if len(nested.kinds) > 1 or has_own:
        none = [None] if nested.optional else []
        choices = (*nested.kinds, *([OWN] if has_own else []), *none)
        return [
            Option(
                name=nested.name,
                kind="choice",
                default=nested.default,
                label=nested.label,
                help=nested.help,
                choices=choices,
            )
        ]
    if not nested.optional:
        return []
    return [
        Option(
            name=nested.name,
            kind="flag",
            default=nested.default is not None,
            label=nested.label,
            help=nested.help,
        )
    ]


def _complain(form: OptionForm, place: Path, problems: Mapping[Path, str]) -> None:
    for name in form.fields:
        form.complain(name, problems.get((*place, name), ""))


def _group_names(cls: type[TrainingMaster]) -> list[str]:
    names = [each.group for each in (*plain_options(cls), *nested_options(cls))]
    return list(dict.fromkeys(names))
