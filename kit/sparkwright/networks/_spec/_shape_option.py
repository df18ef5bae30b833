"""An option that is a shape: integers, and axes of any length."""

from typing import Any

from sparkwright.options import Option

_ANY = {"any", "none", "?", "*", "null"}


class ShapeOption(Option):
    """A shape of one example; an axis may be None: of any length.

    Example:
        >>> shape = ShapeOption(name="shape", kind="ints", minimum=1)
        >>> shape.parse("any, 28")
        [None, 28]
        >>> shape.text([None, 28])
        'any, 28'
    """

    __slots__ = ()

    @property
    def rule(self) -> str:
        """What the value must be, as the end of "`name` must be"."""
        return "the length of each axis, such as 28, 28, 1; `any` for an axis of any length"

    def parse(self, text: str) -> list[int | None]:
        """The shape that a person typed.

        Raises:
            ConfigurationError: as `check`.
        """
        parts = [part.strip() for part in text.strip("()[] ").replace("x", ",").split(",")]
        try:
            value: Any = [None if p.lower() in _ANY else int(p) for p in parts if p]
        except ValueError:
            value = text
        self.check(value)
        return value

    def text(self, value: Any) -> str:
        """What a form shows for `value`; `parse` reads it back."""
        axes = value if isinstance(value, list | tuple) else [value]
        return ", ".join("any" if n is None else str(n) for n in axes)

    def _fits(self, value: Any) -> bool:
        if not isinstance(value, list | tuple) or not value:
            return False
        return all(
            n is None or (isinstance(n, int) and not isinstance(n, bool) and n >= 1) for n in value
        )
