"""Python source that creates a configuration or makes a call."""

import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, cast

from sparkwright.configuration import Configuration, changed_names

_CODE_WIDTH = 88


class Expression(str):
    """Python source that `to_code` writes without quotes."""

    __slots__ = ()


def to_code(settings: Any, *, prefix: str = "sw.", named: Mapping[str, str] | None = None) -> str:
    """Return the Python expression that creates a value; defaults of objects are omitted.

    Args:
        settings: a configuration, another dataclass, or plain values in lists, tuples and
            dictionaries. Options that are code are left out.
        prefix: prefix of class names; default "sw.". Classes that `sparkwright` does not export
            also get the name of their package.
        named: option -> Python source to write instead of its value, such as a variable. These
            options are always written. Default None: none.

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
        for name in changed_names(settings, named)
    )
    kind = type(settings)
    top, package, *_ = f"{kind.__module__}..".split(".")
    place = "" if hasattr(sys.modules.get(top), kind.__name__) else f"{package}."
    return f"{prefix}{place}{kind.__name__}({', '.join(given)})"


def call_to_code(function: str, *arguments: Any, **named: Any) -> str:
    """Return the Python source of a call, over several lines if it is long.

    Args:
        function: the function's name, or any text before the parenthesis, such as "data = load".
        arguments: positional arguments.
        named: keyword arguments.

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
    """Return the source of an argument; wrap long lists."""
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
    """Return a plain value as Python source, with double-quoted strings where possible."""
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))  # NumPy floats have a `repr` with NumPy's name
    if isinstance(value, str):
        # With a leading apostrophe, `repr` uses double quotes.
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
