"""An evaluation that is defined by two functions of the user."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

from .abstract import AbstractEvaluation, Batch
from .checks import LARGEST_COUNT, check_count, reading, state
from .numbers import number_text
from .plots import draw_bars
from .reports import Figure, Report, Table

Array = NDArray[Any]
Evaluate = Callable[[Array, Array, Array | None], Any]
Merge = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CustomEvaluation(AbstractEvaluation):
    """The results of `evaluate` for each batch, combined by `merge`.

    The order of merging is not fixed, so `merge` must be commutative and associative:
    merge(a, b) == merge(b, a) and merge(a, merge(b, c)) == merge(merge(a, b), c). Sums of real
    numbers are so up to rounding; sums of integers, unions and maxima exactly.
    A mask is (n, ...); examples where it is all 0 do not count. What of the others counts is up to
    `evaluate`. Results are kept as JSON text, so functions get copies that they may change. Keep
    them small.

    Functions are neither part of the JSON nor compared. The result of `from_dict` has none: it
    shows its result, and it can be added to one with functions.

    Attributes:
        evaluate: of labels, predictions and mask (or None) of a batch, as arrays; gives JSON-able
            values: numbers, texts, lists, dicts by text, and NumPy's numbers and arrays.
        merge: of two such results.
        title: what reports call it.
        result_text: the result as JSON; None before any example.
        rows: examples that were evaluated; those that are masked altogether do not count.

    Example:
        >>> hits = CustomEvaluation(
        ...     lambda labels, predictions, mask: {"hits": int((labels == predictions).sum())},
        ...     lambda a, b: {"hits": a["hits"] + b["hits"]},
        ... )
        >>> first = hits.updated([1, 0], [1, 1])
        >>> (first + hits.updated([0, 0], [0, 0])).result
        {'hits': 3}
    """

    name: ClassVar[str] = "custom_evaluation"

    evaluate: Evaluate | None = field(compare=False)
    merge: Merge | None = field(compare=False)
    title: str = field(default="custom", kw_only=True)
    result_text: str | None = field(default=None, kw_only=True, metadata=state())
    rows: int = field(default=0, kw_only=True, metadata=state())

    def __post_init__(self) -> None:
        """Check the functions and the title.

        Raises:
            ConfigurationError: if one of them cannot be what it should be.
        """
        for option in ("evaluate", "merge"):
            function = getattr(self, option)
            if not (callable(function) or (function is None and self.merge is self.evaluate)):
                raise ConfigurationError(
                    f"`{option}` must be a function. Received: {option}={function!r:.80}."
                )
        if not isinstance(self.title, str) or not self.title:
            raise ConfigurationError(f"`title` must be text. Received: title={self.title!r:.80}.")
        check_count("rows", self.rows, minimum=0, maximum=LARGEST_COUNT)
        if (self.result_text is None) != (self.rows == 0):
            raise DataError(
                "there is a result if there are examples. "
                f"Received: rows={self.rows} with {self.result_text!r:.40}."
            )

    @property
    def examples(self) -> int:
        """Examples that were evaluated; those that are masked altogether do not count."""
        return self.rows

    @property
    def result(self) -> Any:
        """What was found, a copy; None before any example."""
        return None if self.result_text is None else json.loads(self.result_text)

    def _counted(self, batch: Batch) -> Self:
        was, said = np.asarray(batch.labels), np.asarray(batch.predictions)
        given = None if batch.mask is None else np.asarray(batch.mask)
        sizes = {np.shape(array)[:1] for array in (was, said, given) if array is not None}
        if len(sizes) != 1 or sizes == {()}:
            raise DataError(
                "labels, predictions and mask must have as many rows. Received: shapes "
                f"{was.shape}, {said.shape} and {None if given is None else given.shape}."
            )
        evaluate, _ = self._functions()
        counted = len(said)
        if given is not None:
            counted = int(np.count_nonzero((given != 0).any(axis=tuple(range(1, given.ndim)))))
        if not counted:
            return replace(self, result_text=None, rows=0)
        text = _as_text(evaluate(was, said, given), "evaluate")
        return replace(self, result_text=text, rows=counted)

    def __add__(self, other: Any) -> Self:
        """The evaluation of both sets of data together.

        Raises:
            DataError: if the two have different titles, or the result of `merge` is not JSON-able.
            ConfigurationError: if neither has functions.
        """
        found = super(CustomEvaluation, self).__add__(other)
        if found is NotImplemented:
            return found
        able = self if self.merge is not None else other
        return replace(found, evaluate=able.evaluate, merge=able.merge)

    def _merged(self, other: Self) -> Self:
        able = self if self.merge is not None else other
        text = _as_text(able._functions()[1](self.result, other.result), "merge")
        return replace(able, result_text=text, rows=self.rows + other.rows)

    @property
    def _width(self) -> int:
        return int(self.rows > 0)

    def _functions(self) -> tuple[Evaluate, Merge]:
        if self.evaluate is None or self.merge is None:
            raise ConfigurationError(
                "a custom evaluation from JSON has no functions. Received: one named "
                f"{self.title!r}. Use `CustomEvaluation(evaluate, merge).with_result_from(values)`."
            )
        return self.evaluate, self.merge

    def headline(self) -> dict[str, float]:
        """The numbers in the result: itself, or entries of a dict."""
        result = self.result
        entries = result.items() if isinstance(result, dict) else [(self.title, result)]
        return {
            str(key): float(value)
            for key, value in entries
            if isinstance(value, int | float) and not isinstance(value, bool)
        }

    def __repr__(self) -> str:
        return f"CustomEvaluation({self.title!r}, {self.examples} examples)"

    def _report(self, most: int) -> Report:
        title = f"Custom evaluation {self.title!r} of {self.examples:,} examples"
        text = json.dumps(self.result, indent=2, ensure_ascii=False)
        return Report(title=title, tables=[Table(title=text)])

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw the numbers in the result as bars; see `AbstractEvaluation.plot`.

        Raises:
            DataError: if there are none.
        """
        numbers = self.headline()
        if not numbers:
            raise DataError(
                "only a result that is a number, or a dict with some, can be drawn. "
                f"Received: {self.result!r:.80}. Draw `result` yourself."
            )
        bars = Figure(
            kind="numbers",
            label=self.title,
            caption=f"The numbers of {self.title}.",
            draw=lambda drawn: draw_bars(drawn, list(numbers), {"": [*numbers.values()]}),
            table=Table([["", "value"], *([name, number_text(v)] for name, v in numbers.items())]),
            size=(5.0, 1.4 + 0.3 * min(len(numbers), 30)),
        )
        return bars.plot(axes)

    def to_dict(self) -> dict[str, Any]:
        """Title, result and number of examples, as plain JSON values; without the functions."""
        return {
            "name": self.name,
            "title": self.title,
            "result": self.result,
            "examples": self.examples,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `to_dict` gave, without functions: it can be shown, and added to one with them.

        Raises:
            DataError: if `values` is no such evaluation.
        """
        cls._check_keys(values, "title", "result", "examples")
        with reading("a CustomEvaluation"):
            text = _as_text(values["result"], "from_dict") if values["examples"] else None
            return cls(None, None, title=values["title"], result_text=text, rows=values["examples"])

    def with_result_from(self, values: Mapping[str, Any]) -> Self:
        """What `to_dict` gave, with the functions of this one.

        Raises:
            DataError: if `values` is no such evaluation, or one of another title.
        """
        return replace(self, result_text=None, rows=0) + CustomEvaluation.from_dict(values)


def _as_text(value: Any, function: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"what `{function}` gives must be JSON-able: numbers that are finite, texts, lists, "
            f"dicts. Received: {value!r:.80} ({error})."
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON-able")
