"""A training master while somebody works on it. Pure.

It is held as settings, in the form that the master's `to_dict` has, because these may be wrong for
a while and a master may not.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sparkwright import ParallelWrapper
from sparkwright.configuration import NestedOption, nested_options, plain_options
from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
    TrainingMaster,
)

# The name of an option, or of one inside another.
Path = tuple[str, ...]
OWN = "own"
KINDS: dict[str, type[TrainingMaster]] = {
    kind.__name__: kind for kind in (ParameterAveragingTrainingMaster, SharedTrainingMaster)
}
_QUOTED = re.compile(r"`(\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """Settings of a training master, which may be wrong.

    Attributes:
        settings: as the master's `to_dict` gives them.
        parallel: whether it is for a `ParallelWrapper`, without Spark.
        hooks: the master's, which settings leave out.
        own: objects of the user's own classes by the name of their option; settings only name them.

    Example:
        >>> draft = Draft.of(ParameterAveragingTrainingMaster()).with_value(("workers",), 0)
        >>> draft.examined()[1]
        {('workers',): '`workers` must be an integer of at least 1 or None. Received: workers=0.'}
    """

    settings: Mapping[str, Any]
    parallel: bool = False
    hooks: tuple[Any, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, master: TrainingMaster, *, parallel: bool = False) -> Self:
        """The draft that makes `master`.

        Raises:
            ConfigurationError: if it is neither of the two kinds.
        """
        kind = type(master)
        if kind not in KINDS.values():
            raise ConfigurationError(
                f"`master` must be a {' or a '.join(KINDS)}. Received: {kind.__name__}. One of a "
                "class of your own is used without forms."
            )
        own = {
            option.name: getattr(master, option.name)
            for option in nested_options(kind)
            if getattr(master, option.name) is not None
            and type(getattr(master, option.name)) not in option.kinds.values()
        }
        return cls(settings=master.to_dict(), parallel=parallel, hooks=master.hooks, own=own)

    @property
    def kind(self) -> type[TrainingMaster]:
        """The master's class."""
        return KINDS[self.settings["name"]]

    def value(self, path: Path) -> Any:
        """What an option is set to; of a nested object, its kind, None without one."""
        nested = self._nested(path[0])
        if nested is None:
            return self.settings[path[0]]
        if path[0] in self.own:
            return OWN
        kind, options = nested.read(self.settings[path[0]])
        return kind if len(path) == 1 else options[path[1]]

    def with_value(self, path: Path, value: Any) -> Self:
        """The same with another value; a nested object of another kind begins with defaults."""
        nested = self._nested(path[0])
        if nested is None:
            return self._with(path[0], value)
        kind, options = nested.read(self.settings[path[0]])
        if len(path) == 2:
            return self._with(path[0], nested.write(kind, {**options, path[1]: value}))
        if value is None or value == OWN:
            return self._with(path[0], None)
        defaults = {each.name: each.default for each in plain_options(nested.kinds[value])}
        changed = self._with(path[0], nested.write(value, defaults))
        return replace(changed, own={k: v for k, v in self.own.items() if k != path[0]})

    def as_kind(self, name: str, before: Mapping[str, Any] | None = None) -> Self:
        """The same for the other class: what both know is kept.

        Args:
            name: of the class.
            before: settings of that class from earlier, for what only it knows; default None.
        """
        settings = dict(before or KINDS[name]().to_dict())
        settings |= {key: self.settings[key] for key in settings if key in self.settings}
        return replace(self, settings={**settings, "name": name})

    def examined(self) -> tuple[TrainingMaster | None, dict[Path, str]]:
        """The master, and what is wrong by the option that it is about; () is the whole."""
        given = {key: value for key, value in self.settings.items() if key != "name"}
        problems: dict[Path, str] = {}
        for nested in nested_options(self.kind):
            if nested.name in self.own:
                given[nested.name] = self.own[nested.name]
                continue
            kind, options = nested.read(given[nested.name])
            if kind is None:
                given[nested.name] = None
                continue
            try:
                given[nested.name] = nested.kinds[kind](**options)
            except ConfigurationError as error:
                problems[(nested.name, *_named(error, options))] = str(error)
        if problems:
            return None, problems
        try:
            master = self.kind(**given, hooks=self.hooks)
            if self.parallel:
                ParallelWrapper(None, master)  # for its checks; nothing starts
        except ConfigurationError as error:
            return None, {_named(error, given): str(error)}
        return master, {}

    def changed(self) -> dict[Path, Any]:
        """Options that differ from their defaults, those of nested objects by their own."""
        defaults = Draft.of(self.kind())
        found: dict[Path, Any] = {}
        for option in plain_options(self.kind):
            if self.settings[option.name] != option.default:
                found[(option.name,)] = self.settings[option.name]
        for nested in nested_options(self.kind):
            kind = self.value((nested.name,))
            if kind != defaults.value((nested.name,)):
                found[(nested.name,)] = kind
            if kind is None or kind == OWN:
                continue
            options = nested.read(self.settings[nested.name])[1]
            for option in plain_options(nested.kinds[kind]):
                if options[option.name] != option.default:
                    found[(nested.name, option.name)] = options[option.name]
        return found

    def _nested(self, name: str) -> NestedOption | None:
        return next((each for each in nested_options(self.kind) if each.name == name), None)

    def _with(self, name: str, value: Any) -> Self:
        return replace(self, settings={**self.settings, name: value})


def _named(error: ConfigurationError, known: Mapping[str, Any]) -> Path:
    """The option that an error is about: the first that it names."""
    return next(((name,) for name in _QUOTED.findall(str(error)) if name in known), ())
