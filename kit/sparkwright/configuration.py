"""Configurations: frozen dataclasses that declare each option once, in its field. Pure.

    @configuration
    class Clipping(Configuration):
        multiple: float = option(default=5.0, minimum=1, unit="thresholds", help="The bound.")

From the declaration follow the checks of the constructor, the class's documentation, JSON and YAML,
and the fields of forms (`plain_options`, `nested_options`).
"""

import functools
import importlib
import json
import sys
import textwrap
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from sparkwright._yaml import read_json, read_yaml, write_yaml
from sparkwright.errors import ConfigurationError
from sparkwright.options import Option, OptionKind

T = TypeVar("T")
_KINDS: dict[Any, OptionKind] = {bool: "flag", int: "int", float: "float", str: "text"}
_WIDTH = 96
_CODE_WIDTH = 88


def option(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | Any = MISSING,
    kw_only: bool = True,
    help: str = "",
    kinds: Mapping[str, type[Any]] | None = None,
    methods: Sequence[str] = (),
    form: bool = True,
    saved: bool = True,
    **description: Any,
) -> Any:
    """Declare an option: a dataclass field with what is known of it.

    Args:
        default: its default; without one it must be given.
        default_factory: makes the default, of an option that is an object.
        kw_only: whether it must be given by name; default True.
        help: what it does and how to choose it: sentences for forms and documentation.
        kinds: of an option that is an object: its name in settings -> class.
        methods: of an option that may be the user's own object: the methods that it needs.
        form: whether forms show it; default True.
        saved: whether it is part of settings and equality; default True. Code is not.
        description: further attributes of `Option` (or `NestedOption`): `minimum`, `unit`, `label`…
    """
    metadata = {
        "form": form,
        "saved": saved,
        "kinds": kinds,
        "methods": tuple(methods),
        "description": {"help": help, **description},
    }
    made: Any = field(
        default=default,
        default_factory=default_factory,
        kw_only=kw_only,
        compare=saved,
        metadata=metadata,
    )
    return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, field))
def configuration(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass with slots, whose documentation lists its options."""
    made = dataclass(frozen=True, kw_only=True, slots=True)(cls)
    made.__doc__ = _documented(made)
    return made


class Configuration:
    """What all configurations share: checks, and settings as dictionaries, JSON, YAML and Python.

    In settings an option that is an object is nested, by its own `to_dict`. An object of the user's
    own stands there as `{"name": "module.Class", "configuration": {…}}`, with what its `to_dict`
    returns. The readers import its class only if `allow` names it, and give the configuration to
    its `from_dict`, or the options in it to the class as keyword arguments.
    """

    __slots__ = ()
    # The name in settings of one kind among others, as {"name": …, "configuration": {…}}.
    _kind: ClassVar[str] = ""
    # Whether settings hold the name of the class beside the options.
    _tagged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check each option, then all of them together."""
        for declared in (*plain_options(type(self)), *nested_options(type(self))):
            declared.check(getattr(self, declared.name))
        self._check()

    def _check(self) -> None:
        """Raise if options do not go together, or a value fails a rule of this class alone."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able settings; options that are code are left out."""
        options = {
            each.name: _setting(each, self.shown(each.name))
            for each in _fields(type(self), "saved")
        }
        if self._kind:
            return {"name": self._kind, "configuration": options}
        return {"name": type(self).__name__, **options} if self._tagged else options

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], *, allow: Collection[str] = ()) -> Self:
        """The inverse of `to_dict`; options left out take their defaults.

        Classes of the user's own are imported if `allow` names them, as "package.module.Class".

        Raises:
            ConfigurationError: if an option is unknown or invalid, or its class is not allowed.
        """
        given = checked_dict(settings)
        if cls._kind:
            if given.keys() - {"name", "configuration"} or given.get("name") != cls._kind:
                raise ConfigurationError(
                    f"settings of {cls.__name__} must be {cls._kind!r} and a configuration. "
                    f"Received: {given!r:.200}."
                )
            given = checked_dict(given.get("configuration", {}))
        else:
            given = cls._updated(given)
            name = given.pop("name", cls.__name__) if cls._tagged else cls.__name__
            if name != cls.__name__:
                raise ConfigurationError(
                    f"`name` must be {cls.__name__!r} here. Received: name={name!r}."
                )
        known = {each.name: each for each in _fields(cls, "saved")}
        unknown = sorted(map(str, given.keys() - known.keys()))
        if unknown:
            raise ConfigurationError(
                f"unknown options {unknown} of {cls.__name__}. Known are {sorted(known)}."
            )
        for nested in nested_options(cls):
            if given.get(nested.name) is not None:
                given[nested.name] = nested.from_setting(given[nested.name], allow=allow)
        missing = [
            name
            for name, each in known.items()
            if name not in given and each.default is MISSING and each.default_factory is MISSING
        ]
        if missing:
            raise ConfigurationError(
                f"`{missing[0]}` must be given. Received: {sorted(map(str, given))}."
            )
        return cls(**given)

    def shown(self, name: str) -> Any:
        """The value of an option as files, code and documents may show it."""
        return getattr(self, name)

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults; those that are code are left out."""
        return {name: getattr(self, name) for name in _changed(self)}

    def to_json(self) -> str:
        """Indented JSON of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str, *, allow: Collection[str] = ()) -> Self:
        """The inverse of `to_json`; `allow` as for `from_dict`.

        Raises:
            ConfigurationError: if the text is no JSON, or not of these settings.
        """
        return cls.from_dict(read_json(text), allow=allow)

    def to_yaml(self) -> str:
        """YAML of `to_dict`."""
        return write_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, text: str, *, allow: Collection[str] = ()) -> Self:
        """The inverse of `to_yaml`; numbers may be written as 1e-3, `allow` as for `from_dict`.

        Raises:
            ConfigurationError: if the text is no YAML, or not of these settings.
        """
        return cls.from_dict(read_yaml(text), allow=allow)

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings that an earlier version wrote, in today's form."""
        return settings


@dataclass(frozen=True, kw_only=True, slots=True)
class NestedOption:
    """An option that is an object with options of its own.

    In settings it is None, the object's options, or with several kinds a name and a configuration,
    or the name of the class beside the options.

    Attributes:
        name: the name of the argument.
        kinds: name in settings -> class. With one kind the name is no part of the settings.
        default: the name of the default kind; None: nothing.
        label: a word or two for a form.
        help: what to choose, and why.
        optional: whether None may be given.
        none_text: what None means.
        methods: what an object of the user's own needs; empty: there are no such.
        group: options of one group stand together.
    """

    name: str
    kinds: Mapping[str, type[Any]]
    default: str | None
    label: str = ""
    help: str = ""
    optional: bool = False
    none_text: str = "none"
    methods: tuple[str, ...] = ()
    group: str = ""

    @property
    def named(self) -> bool:
        """Whether settings hold a name and a configuration."""
        return any(getattr(kind, "_kind", "") for kind in self.kinds.values())

    def check(self, value: Any) -> None:
        """Raise if `value` is invalid.

        Raises:
            ConfigurationError: naming the option, the rule and the value.
        """
        if (value is None and self.optional) or isinstance(value, tuple(self.kinds.values())):
            return
        own = bool(self.methods) and not isinstance(value, type)
        if own and all(callable(getattr(value, method, None)) for method in self.methods):
            return
        names = [_with_article(kind.__name__) for kind in self.kinds.values()]
        if self.methods:
            names.append("an object with " + ", ".join(f"`{each}`" for each in self.methods))
        if self.optional:
            names.append("None")
        listed = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        raise ConfigurationError(
            f"`{self.name}` must be {listed}. Received: {self.name}={value!r:.200}."
        )

    def read(self, setting: Any) -> tuple[str | None, dict[str, Any]]:
        """Kind and options that a setting holds; of an object of the user's own, no options.

        Args:
            setting: the value in what `to_dict` returns.

        Raises:
            ConfigurationError: if it is neither None nor a mapping.
        """
        if setting is None:
            return None, {}
        given = checked_dict(setting, name=self.name)
        if not self.named:
            first = next(iter(self.kinds))
            return (first if len(self.kinds) == 1 else str(given.get("name", first))), given
        inside = checked_dict(given.get("configuration", {}), name="configuration")
        return str(given.get("name")), inside

    def write(self, kind: str | None, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """The setting that `read` takes apart."""
        if kind is None:
            return None
        return {"name": kind, "configuration": dict(options)} if self.named else dict(options)

    def from_setting(self, setting: Any, *, allow: Collection[str] = ()) -> Any:
        """The object that a setting describes; an object of one of the kinds stays as it is.

        Raises:
            ConfigurationError: if the kind or an option is unknown, or an option invalid.
        """
        if isinstance(setting, tuple(self.kinds.values())):
            return setting
        kind, options = self.read(setting)
        if kind is not None and kind in self.kinds:
            return self.kinds[kind].from_dict(setting, allow=allow)
        if self.methods and kind in list(allow):
            return self._own(str(kind), options)
        own = (
            f" To import a class of your own, name it: `from_json(text, allow=[{kind!r}])`. Or set "
            f"the object with `dataclasses.replace(…, {self.name}=…)`."
        )
        raise ConfigurationError(
            f"`{self.name}` must be named one of {', '.join(map(repr, self.kinds))} in "
            f"settings. Received: name={setting.get('name')!r}.{own if self.methods else ''}"
        )

    def _own(self, name: str, options: dict[str, Any]) -> Any:
        """An object of the user's own class `name`, which has been allowed."""
        module, _, qualified = name.rpartition(".")
        try:
            cls = getattr(importlib.import_module(module), qualified)
            if not hasattr(cls, "from_dict") and {*options} == {"name", "configuration"}:
                options = options["configuration"]
            made = cls.from_dict(options) if hasattr(cls, "from_dict") else cls(**options)
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise ConfigurationError(
                f"`{self.name}` must be of a class that can be imported, and made of its "
                f"configuration. Received: name={name!r}, configuration={options!r:.200}: {error}."
            ) from error
        self.check(made)
        return made


@functools.cache
def plain_options(cls: type[Any]) -> tuple[Option, ...]:
    """The options of a configuration that are values, in the order of its fields.

    Raises:
        ConfigurationError: if `cls` is no configuration.
    """
    return tuple(each for each in _declared(cls) if isinstance(each, Option))


@functools.cache
def nested_options(cls: type[Any]) -> tuple[NestedOption, ...]:
    """The options of a configuration that are objects with options of their own.

    Raises:
        ConfigurationError: if `cls` is no configuration.
    """
    return tuple(each for each in _declared(cls) if isinstance(each, NestedOption))


def checked_dict(settings: Any, *, name: str = "settings") -> dict[str, Any]:
    """A copy of `settings`.

    Raises:
        ConfigurationError: if they are no mapping.
    """
    if not isinstance(settings, Mapping):
        raise ConfigurationError(
            f"`{name}` must be a dictionary of options. Received: {name}={settings!r:.200}."
        )
    return {str(key): value for key, value in settings.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


class Expression(str):
    """Python source that `to_code` writes as it is, without quotes."""

    __slots__ = ()


def to_code(settings: Any, *, prefix: str = "sw.", named: Mapping[str, str] | None = None) -> str:
    """The Python expression that makes a value; of an object, what differs from the defaults.

    Args:
        settings: a configuration, another dataclass, or plain values in lists, tuples and
            dictionaries. Options that are code are left out.
        prefix: stands before names of classes; default "sw.". Those that `sparkwright` itself does
            not offer have the name of their package in addition.
        named: option -> Python source that stands in place of its value, such as a name; such an
            option is written in any case. Default None: none.

    Example:
        >>> from sparkwright.masters import MeshConfig, ParameterAveragingTrainingMaster
        >>> to_code(ParameterAveragingTrainingMaster(mesh=MeshConfig(ports="50000"), seed=1))
        'sw.ParameterAveragingTrainingMaster(seed=1, mesh=sw.MeshConfig(ports="50000"))'
        >>> to_code(["a", 1, None, Expression("count")])
        '["a", 1, None, count]'
    """
    if not is_dataclass(settings) or isinstance(settings, type):
        return _literal(settings, prefix)
    named = named or {}
    shown = settings.shown if isinstance(settings, Configuration) else settings.__getattribute__
    given = (
        f"{name}={named.get(name) or to_code(shown(name), prefix=prefix)}"
        for name in _changed(settings, named)
    )
    kind = type(settings)
    top, package, *_ = f"{kind.__module__}..".split(".")
    place = "" if hasattr(sys.modules.get(top), kind.__name__) else f"{package}."
    return f"{prefix}{place}{kind.__name__}({', '.join(given)})"


def call_to_code(function: str, *arguments: Any, **named: Any) -> str:
    """The Python source of a call, over several lines if it is long.

    Args:
        function: its name, or what else stands before the parenthesis, such as "data = load".
        arguments: the first ones.
        named: the others, by name.

    Example:
        >>> call_to_code("data = load", Expression("spark"), url="a.csv")
        'data = load(spark, url="a.csv")'
    """
    parts = [*map(to_code, arguments), *(f"{k}={_wrapped(v, k)}" for k, v in named.items())]
    line = f"{function}({', '.join(parts)})"
    if len(line) <= _CODE_WIDTH and "\n" not in line:
        return line
    return f"{function}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _wrapped(value: Any, name: str) -> str:
    """The source of an argument; long lists go over several lines."""
    text = to_code(value)
    if not isinstance(value, list) or len(text) + len(name) + 6 <= _CODE_WIDTH:
        return text
    items: list[Any] = value
    lines = [""]
    for item in items:
        shown = f"{to_code(item)},"
        if lines[-1] and len(lines[-1]) + len(shown) > _CODE_WIDTH - 10:
            lines.append("")
        lines[-1] += f" {shown}" if lines[-1] else shown
    return "[\n" + "".join(f"        {line}\n" for line in lines) + "    ]"


def _literal(value: Any, prefix: str) -> str:
    """A plain value as Python writes it; texts in double quotes where that is possible."""
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))  # those of NumPy write themselves with NumPy's name
    if isinstance(value, str):
        # With an apostrophe in front, `repr` takes double quotes.
        return repr(str(value)) if '"' in value else f'"{repr(chr(39) + value)[2:-1]}"'
    if isinstance(value, list | tuple):
        items = [to_code(item, prefix=prefix) for item in cast("list[Any]", value)]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, dict):
        pairs = (
            f"{to_code(key, prefix=prefix)}: {to_code(inner, prefix=prefix)}"
            for key, inner in cast("dict[Any, Any]", value).items()
        )
        return "{" + ", ".join(pairs) + "}"
    return repr(value)


def _changed(settings: Any, always: Collection[str] = ()) -> list[str]:
    """Names of the options that differ from their defaults, and of those in `always`."""
    return [
        each.name
        for each in _fields(type(settings), "saved")
        if each.name in always or getattr(settings, each.name) != _default(each)
    ]


def _fields(cls: Any, flag: Literal["saved", "form"]) -> list[Field[Any]]:
    return [each for each in fields(cls) if each.metadata.get(flag, True)]


def _declared(cls: type[Any]) -> list[Option | NestedOption]:
    if not issubclass(cls, Configuration):
        raise ConfigurationError(f"options are declared by configurations. Received: {cls!r}.")
    hints = get_type_hints(cls)
    return [_describe(each, hints[each.name]) for each in _fields(cls, "form")]


def _describe(declared: Field[Any], hint: Any) -> Option | NestedOption:
    description: dict[str, Any] = dict(declared.metadata.get("description", {}))
    default, variants = _default(declared), _variants(hint)
    if types.NoneType in variants:
        description["optional"] = True
        variants.remove(types.NoneType)
    kinds: Mapping[str, type[Any]] | None = declared.metadata.get("kinds")
    if kinds is None and hasattr(variants[0], "from_dict"):
        kinds = {"on": variants[0]}
    if kinds is not None:
        chosen = [name for name, kind in kinds.items() if type(default) is kind]
        return NestedOption(
            name=declared.name,
            kinds=kinds,
            default=chosen[0] if chosen else None,
            methods=declared.metadata["methods"],
            **description,
        )
    return option_of(declared.name, hint, default, **description)


def option_of(name: str, hint: Any, default: Any = MISSING, **description: Any) -> Option:
    """The option that an argument with this annotation is.

    Example:
        >>> option_of("missing", Literal["skip"] | float, "skip").rule
        "a finite number, or one of 'skip'"
    """
    variants = _variants(hint)
    if types.NoneType in variants:
        description.setdefault("optional", True)
    literals = [each for each in variants if get_origin(each) is Literal]
    plain = [each for each in variants if each is not types.NoneType and each not in literals]
    if literals and plain:
        words = (word for each in literals for word in get_args(each))
        description.setdefault("words", tuple((str(word), word) for word in words))
    elif literals:
        description.setdefault("choices", get_args(literals[0]))
    kind: OptionKind = "choice"
    if "choices" not in description:
        kind = description.pop("kind", None) or _KINDS.get(plain[0]) or "texts"
    return Option(
        name=name, kind=kind, default=None if default is MISSING else default, **description
    )


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _variants(hint: Any) -> list[Any]:
    return list(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else [hint]


def _default(declared: Any) -> Any:
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return declared.default


def _documented(cls: type[Any]) -> str:
    """The docstring, with its options as a section before the examples."""
    lines = ["Attributes:"]
    for each in fields(cls):
        if each.name.startswith("_"):
            continue
        description = each.metadata.get("description", {})
        text = description.get("help", "")
        if isinstance(each.default_factory, type):
            text += f" Default: {each.default_factory.__name__}()."
        elif each.default is not MISSING:
            meaning = description.get("none_text") if each.default is None else None
            text += f" Default: {each.default!r}{f' ({meaning})' if meaning else ''}."
        lines.append(
            textwrap.fill(
                f"{each.name}: {text}",
                _WIDTH,
                initial_indent=" " * 8,
                subsequent_indent=" " * 12,
                break_on_hyphens=False,
            )
        )
    section = "\n".join(lines)
    before, mark, after = (cls.__doc__ or "").partition("\n    Example:")
    if not mark:
        return f"{before.rstrip()}\n\n    {section}\n    "
    return f"{before.rstrip()}\n\n    {section}\n{mark}{after}"


def _setting(declared: Field[Any], value: Any) -> Any:
    """What stands in settings for the value of an option."""
    kinds = tuple((declared.metadata.get("kinds") or {}).values())
    if not declared.metadata.get("methods") or value is None or isinstance(value, kinds):
        return _plain(value)
    kind, given = type(value), value.to_dict() if hasattr(value, "to_dict") else {}
    return {"name": f"{kind.__module__}.{kind.__qualname__}", "configuration": _plain(given)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in cast("dict[Any, Any]", value).items()}
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return {"name": type(value).__name__, "configuration": {}}
