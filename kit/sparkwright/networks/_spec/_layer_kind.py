"""What is known about one class of layers: its options, and its rule for shapes and parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sparkwright.options import Option

from ._defaults import without_defaults
from ._shapes import Shape

Group = Literal[
    "core",
    "activation",
    "convolution",
    "pooling",
    "recurrent",
    "embedding",
    "normalisation",
    "reshaping",
    "merging",
]
Takes = Literal["one", "several", "none"]
Options = Mapping[str, Any]
EDGES = ("padding", "cropping")  # options with a number before and one after each axis


class Outcome(NamedTuple):
    """What a layer makes of its inputs.

    Attributes:
        shape: of one example of its output.
        trainable: numbers that training changes.
        fixed: other numbers that it holds, such as moving averages.
        dtype: of the output; None: that of the input if the layer takes any, else float32.
    """

    shape: Shape
    trainable: int = 0
    fixed: int = 0
    dtype: str | None = None


Rule = Callable[[Options, tuple[Shape, ...]], Outcome]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerKind:
    """One class of layers.

    Attributes:
        name: the class in Keras.
        group: where a list of layers shows it.
        sentence: what it does, for somebody who meets it the first time.
        options: in the order of a form; those without a default (`required`) first.
        rule: the output's shape and the parameters, of the options (defaults filled in) and the
            shapes of the inputs; raises `Misfit`.
        takes: how many inputs.
        least: how many it needs, if it takes several.
        most: how many it may have, if it takes several; None: any number.
        required: names of the options without a default of Keras.
        positional: names of those that code gives without their names.
        any_dtype: whether it takes integers as well as floating-point numbers.
        seeded_by: options that bring chance into training (such as a rate) unless they are 0.
        inner: the class that it wraps, or the name of the option that says which.
        outer: with `inner`: names of the options that are the wrapper's own.
        lists: options that are a list even with a single number.
        separately: whether several inputs are arguments of their own, not a list.
    """

    name: str
    group: Group
    sentence: str
    rule: Rule
    options: tuple[Option, ...] = ()
    takes: Takes = "one"
    least: int = 2
    most: int | None = None
    required: tuple[str, ...] = ()
    positional: tuple[str, ...] = ()
    any_dtype: bool = False
    seeded_by: tuple[str, ...] = ()
    inner: str | None = None
    outer: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    separately: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        """What each option is when it is not given; also what a form begins with."""
        return {option.name: option.default for option in self.options}

    def option(self, name: str) -> Option | None:
        """The option of that name; None: there is none."""
        return next((option for option in self.options if option.name == name), None)

    def tidy(self, options: Options) -> dict[str, Any]:
        """The options without those that equal Keras' defaults, which say nothing."""
        given = {name: self._short(name, value) for name, value in options.items()}
        return without_defaults(given, self.defaults, keep=self.required)

    def _short(self, name: str, value: Any) -> Any:
        """One integer instead of the same one for each axis; `lists` stay lists."""
        option = self.option(name)
        if option is None or option.kind != "ints" or name == "shape":
            return value
        if name in self.lists:
            return [value] if isinstance(value, int) and not isinstance(value, bool) else value
        # As many as the class' name says; twice as many around the edges.
        axes = next((int(letter) for letter in self.name if letter.isdigit()), 2)
        counts = (axes, 2 * axes) if name in EDGES else (axes,)
        if not isinstance(value, list) or len(value) not in counts:
            return value
        same = all(type(n) is int and n == value[0] for n in value)
        return value[0] if same else value
