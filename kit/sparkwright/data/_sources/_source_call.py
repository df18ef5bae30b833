"""The call of `sparkwright.data` that a DataSource stands for: made here, or written as code."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from sparkwright.data._images._image_labels import MaskFile, PatternLabel

_WIDTH = 88


class Expression(str):
    """Python source that stands for a value: written as it is, without quotes."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCall:
    """One call.

    Attributes:
        function: its name in `sparkwright.data`.
        place: the URL, or None.
        is_table: whether `place` names a table of the session, which is given instead of it.
        keywords: the other arguments, without those at their defaults.
    """

    function: str
    place: str | None
    is_table: bool = False
    keywords: Mapping[str, Any]

    def to_code(self, variable: str) -> str:
        """`variable = sw.data.FUNCTION(…)`, with a line end."""
        if self.is_table:
            first = [f"spark.table({literal(self.place)})"]
        else:
            first = ["spark", *([] if self.place is None else [literal(self.place)])]
        named = [f"{name}={_wrapped(value, name)}" for name, value in self.keywords.items()]
        begin = f"{variable} = sw.data.{self.function}("
        line = f"{begin}{', '.join([*first, *named])})\n"
        if len(line) <= _WIDTH and line.count("\n") == 1:
            return line
        inside = "".join(f"    {argument},\n" for argument in [*first, *named])
        return f"{begin}\n{inside})\n"


def literal(value: Any) -> str:
    """A value as Python source; texts in double quotes where that is possible.

    Example:
        >>> literal(["a", 1, None, PatternLabel(pattern="_")])
        '["a", 1, None, sw.data.PatternLabel(pattern="_")]'
    """
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, float):
        return repr(float(value))  # NumPy's too
    if isinstance(value, str):
        value = str(value)
        # With an apostrophe in front, `repr` takes double quotes.
        return repr(value) if '"' in value else f'"{repr(chr(39) + value)[2:-1]}"'
    if isinstance(value, list | tuple):
        items = [literal(item) for item in cast("list[Any]", value)]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in pairs) + "}"
    if isinstance(value, PatternLabel | MaskFile):
        given = [
            f"{field.name}={literal(getattr(value, field.name))}"
            for field in fields(value)
            if getattr(value, field.name) != field.default
        ]
        return f"sw.data.{type(value).__name__}({', '.join(given)})"
    return repr(value)


def _wrapped(value: Any, name: str) -> str:
    """A literal; long lists go over several lines."""
    text = literal(value)
    if not isinstance(value, list) or len(text) + len(name) + 6 <= _WIDTH:
        return text
    lines = [""]
    for item in cast("list[Any]", value):
        shown = f"{literal(item)},"
        if lines[-1] and len(lines[-1]) + len(shown) > _WIDTH - 10:
            lines.append("")
        lines[-1] += f" {shown}" if lines[-1] else shown
    return "[\n" + "".join(f"        {line}\n" for line in lines) + "    ]"
