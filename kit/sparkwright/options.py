"""One option: its type, bounds, unit and help; the source of checks, forms and documentation."""

import re
import shlex
import sys
import types
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass
from typing import (
    Any,
    Literal,
    Union,
    cast,
    get_args,
    get_origin,
)

from sparkwright.errors import ConfigurationError

OptionKind = Literal["int", "float", "text", "choice", "flag", "ints", "schedule", "texts"]

# Products of counts (examples, minibatches, workers) must fit 64 bits.
MAX_COUNT = 2**31 - 1
MAX_BYTES = 2**53
MAX_SEED = 2**64 - 1
_FALSE_AND_TRUE = {"false": False, "no": False, "0": False, "true": True, "yes": True, "1": True}
# Other commas may be decimal commas, so they are rejected.
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
_KIND_OF: dict[Any, OptionKind] = {bool: "flag", int: "int", float: "float", str: "text"}
_KINDS = {
    "int": "an integer",
    "float": "a finite number",
    "text": "text",
    "flag": "True or False",
    "ints": "one integer or several, such as 3 or 3, 3",
    "schedule": "an integer, or integers by the epoch they begin with, in order from epoch 1, such "
    "as {1: 1, 3: 5},",
    "texts": "a list of different texts",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: the name of the argument.
        kind: "int", "float", "text", "choice" (one of `choices`), "flag", "ints" (one or more
            integers, such as a kernel size), "schedule" (an integer, or a dictionary of integers by
            starting epoch) or "texts" (a list, typed with shell quoting).
        default: the default value.
        label: a short label for forms; default: the name without underscores.
        unit: such as "minibatches" or "s"; empty for none.
        help: what the option does, and how to choose its value.
        choices: the valid values of kind "choice".
        words: (typed word, value) pairs; these values are valid too.
        minimum: the lower bound of "int", "float", "ints" and "schedule"; None: unbounded.
        maximum: the upper bound; None: `MAX_COUNT` for integers.
        above: an exclusive lower bound; None: none.
        below: an exclusive upper bound; None: none.
        optional: whether None is valid.
        none_text: what None means.
        group: the group of options in a form; empty: the first one.
    """

    name: str
    kind: OptionKind
    default: Any = None
    label: str = ""
    unit: str = ""
    help: str = ""
    choices: tuple[Any, ...] = ()
    words: tuple[tuple[str, Any], ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    optional: bool = False
    none_text: str = "automatic"
    group: str = ""

    @property
    def title(self) -> str:
        """The label; by default the name with spaces."""
        return self.label or self.name.replace("_", " ").capitalize()

    @property
    def rule(self) -> str:
        """The rule for valid values, as the end of "`name` must be"."""
        if self.kind == "choice":
            what = "one of " + ", ".join(map(repr, self.choices))
        else:
            what = _KINDS[self.kind]
        bounds = [
            f"{words} {bound:g}"
            for words, bound in (
                ("of at least", self.minimum),
                ("of at most", self._shown_maximum),
                ("greater than", self.above),
                ("less than", self.below),
            )
            if bound is not None
        ]
        rule = " ".join([what, " and ".join(bounds)]).strip()
        if self.words and self.kind != "text":
            rule += ", or one of " + ", ".join(repr(value) for _, value in self.words)
        if not self.optional:
            return rule
        return f"{rule}, or None ({self.none_text})" if self.none_text else f"{rule}, or None"

    def check(self, value: Any) -> None:
        """Raise if `value` is invalid.

        Raises:
            ConfigurationError: naming the option, the rule and the value.
        """
        if (value is None and self.optional) or self._fits(value):
            return
        rule = self.rule
        too_large = isinstance(value, int) and value > self._largest_integer
        if self.kind in ("int", "schedule") and too_large and self._shown_maximum is None:
            rule = f"at most {int(self._largest_integer)}{', or None' if self.optional else ''}"
        # Python refuses to format integers of thousands of digits.
        bits = value.bit_length() if isinstance(value, int) else 0
        received = f"{bits} bits" if bits > 64 else f"{value!r:.200}"
        raise ConfigurationError(f"`{self.name}` must be {rule}. Received: {self.name}={received}.")

    def parse(self, text: str) -> Any:
        """Return the value of typed text; integers may have thousands separators.

        Raises:
            ConfigurationError: as `check`; the message quotes the text.

        Example:
            >>> Option(name="kernel_size", kind="ints", default=3, minimum=1).parse("3, 5")
            (3, 5)
            >>> Option(name="batch_size", kind="int").parse("1,024")
            1024
            >>> Option(name="averaging_frequency", kind="schedule").parse("1: 1, 3: 5")
            {1: 1, 3: 5}
            >>> Option(name="workers", kind="int", optional=True).parse("") is None
            True
        """
        given = text.strip()
        if not given and self.optional:
            return None
        try:
            value = self._read(given)
        except ValueError:
            value = given
        self.check(value)
        return value

    def text(self, value: Any) -> str:
        """Format `value` for a form; the inverse of `parse`."""
        if value is None:
            return ""
        for word, meaning in self.words:
            if value == meaning:
                return word
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.kind == "texts":
            return shlex.join(value)
        if isinstance(value, list | tuple):
            return ", ".join(map(str, value))
        if isinstance(value, Mapping):
            return ", ".join(f"{key}: {each}" for key, each in value.items())
        return str(value)

    def _read(self, text: str) -> Any:
        if text in (words := dict(self.words)):
            return words[text]
        match self.kind:
            case "schedule" if ":" in text:
                pairs = (part.split(":") for part in text.strip("{} ").split(","))
                return {int(epoch): int(number) for epoch, number in pairs}
            case "int" | "schedule":
                return int(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
            case "float":
                return float(text)
            case "ints":
                numbers = tuple(
                    int(part) for part in text.strip("()[] ").split(",") if part.strip()
                )
                return numbers[0] if len(numbers) == 1 else numbers
            case "flag":
                return _FALSE_AND_TRUE.get(text.lower(), text)
            case "choice":
                return next((choice for choice in self.choices if self.text(choice) == text), text)
            case "texts":
                return tuple(shlex.split(text))
            case "text":
                return text

    def _fits(self, value: Any) -> bool:
        if any(value == meaning for _, meaning in self.words):
            return True
        match self.kind:
            case "flag":
                return isinstance(value, bool)
            case "text":
                return isinstance(value, str)
            case "choice":
                return value in self.choices
            case "ints":
                numbers = value if isinstance(value, list | tuple) else [value]
                return bool(numbers) and all(map(self._is_fitting_int, numbers))
            case "texts":
                texts: list[Any] = list(value) if isinstance(value, list | tuple) else [None]
                return all(isinstance(text, str) for text in texts) and (
                    len(set(texts)) == len(texts)
                )
            case "schedule" if isinstance(value, Mapping):
                numbers = cast("Mapping[Any, Any]", value)
                epochs = list(numbers)
                fits = all(map(self._is_fitting_int, [*epochs, *numbers.values()]))
                return fits and epochs[:1] == [1] and epochs == sorted(epochs)
            case "int" | "schedule":
                return self._is_fitting_int(value)
            case "float":
                number = isinstance(value, int | float) and not isinstance(value, bool)
                # Excludes NaN and integers beyond the range of float.
                return number and abs(value) <= sys.float_info.max and self._in_bounds(value)

    def _is_fitting_int(self, value: Any) -> bool:
        integer = isinstance(value, int) and not isinstance(value, bool)
        return integer and value <= self._largest_integer and self._in_bounds(value)

    @property
    def _shown_maximum(self) -> float | None:
        """The largest value to show in messages; None if it is only technical."""
        hidden = self.kind != "float" and (self.maximum or 0) > MAX_COUNT
        return None if hidden else self.maximum

    @property
    def _largest_integer(self) -> float:
        return MAX_COUNT if self.maximum is None else self.maximum

    def _in_bounds(self, value: float) -> bool:
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


def check_count(
    name: str,
    value: Any,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    optional: bool = False,
) -> None:
    """Raise unless an argument is an integer from `minimum` to `maximum` (or None)."""
    _argument(name, value, "int", minimum=minimum, maximum=maximum, optional=optional)


def check_number(name: str, value: Any, **rule: Any) -> None:
    """Raise unless an argument is a finite number within bounds; `rule` are `Option` bounds."""
    _argument(name, value, "float", **rule)


def check_positive(name: str, value: Any) -> None:
    """Raise unless an argument is a finite number greater than 0."""
    check_number(name, value, above=0)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise unless an argument is one of `choices`."""
    _argument(name, value, "choice", choices=tuple(choices))


def check_flag(name: str, value: Any) -> None:
    """Raise unless an argument is True or False."""
    _argument(name, value, "flag")


def _argument(name: str, value: Any, kind: OptionKind, **rule: Any) -> None:
    Option(name=name, kind=kind, none_text="", **rule).check(value)


def option_of(name: str, hint: Any, default: Any = MISSING, **description: Any) -> Option:
    """Return the option for an argument with this annotation.

    Example:
        >>> option_of("missing", Literal["skip"] | float, "skip").rule
        "a finite number, or one of 'skip'"
    """
    variants = variants_of(hint)
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
        kind = description.pop("kind", None) or _KIND_OF.get(plain[0]) or "texts"
    return Option(
        name=name, kind=kind, default=None if default is MISSING else default, **description
    )


def variants_of(hint: Any) -> list[Any]:
    """Return the types of a union, or the only type."""
    return list(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else [hint]
