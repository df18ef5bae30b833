"""An evaluation defined by two user functions."""

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
    """Results of `evaluate` for each batch, combined by `merge`.

    The order of merging is not fixed, so `merge` must be commutative and associative:
    merge(a, b) == merge(b, a) and merge(a, merge(b, c)) == merge(merge(a, b), c). This holds
    exactly for integer sums, unions and maxima, and up to rounding for sums of real numbers.
    Masks are (n, ...). Examples with an all-zero mask are not passed to `evaluate`, which applies
    the masks of the remaining ones. Results are kept as JSON text, so the functions may change
    their arguments. Keep results small.

    Functions are neither serialized nor compared. The result of `from_dict` has no functions: it
    can be shown, and it can be added to an evaluation with functions.

    Attributes:
        evaluate: function of labels, predictions and mask (or None) of a batch, as arrays. It
            returns JSON-serializable values: numbers, texts, lists, dicts with text keys, and
            NumPy numbers and arrays.
        merge: function of two such results that returns their combination.
        title: title in reports.
        result_text: the result as JSON; None before any example.
        rows: number of evaluated examples, without fully masked ones.

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
        for option in ("evaluate", "merge"):
            function = getattr(self, option)
            if not (callable(function) or (function is None and self.merge is self.evaluate)):
                raise ConfigurationError(
                    f"`{option}` must be a function. Received: {option}={function!r:.80}."
                )
        if not isinstance(self.title, str) or not self.title:
            raise ConfigurationError(f"`title` must be text. Received: title={self.title!r:.80}.")
        check_count("rows", self.rows, minimum=0, maximum=LARGEST_COUNT)

    @property
    def examples(self) -> int:
        """Number of evaluated examples, without fully masked ones."""
        return self.rows

    @property
    def result(self) -> Any:
        """A copy of the result; None before any example."""
        return None if self.result_text is None else json.loads(self.result_text)

    def _counted(self, batch: Batch) -> Self:
        labels, predictions = np.asarray(batch.labels), np.asarray(batch.predictions)
        mask = None if batch.mask is None else np.asarray(batch.mask)
        sizes = {np.shape(array)[:1] for array in (labels, predictions, mask) if array is not None}
        if len(sizes) != 1 or sizes == {()}:
            raise DataError(
                "labels, predictions and mask must have the same number of rows. Received: shapes "
                f"{labels.shape}, {predictions.shape} and {None if mask is None else mask.shape}."
            )
        evaluate, _ = self._functions()
        counted = len(predictions)
        if mask is not None:
            counted = int(np.count_nonzero((mask != 0).any(axis=tuple(range(1, mask.ndim)))))
        if not counted:
            return replace(self, result_text=None, rows=0)
        text = _as_text(evaluate(labels, predictions, mask), "evaluate")
        return replace(self, result_text=text, rows=counted)

    def __add__(self, other: Any) -> Self:
        """Return the evaluation of both sets of data together.

        Raises:
            DataError: if the titles differ, or the result of `merge` is not JSON-serializable.
            ConfigurationError: if neither has functions.
        """
        found = super(CustomEvaluation, self).__add__(other)
        if found is NotImplemented:
            return found
        source = self if self.merge is not None else other
        return replace(found, evaluate=source.evaluate, merge=source.merge)

    def _merged(self, other: Self) -> Self:
        source = self if self.merge is not None else other
        text = _as_text(source._functions()[1](self.result, other.result), "merge")
        return replace(source, result_text=text, rows=self.rows + other.rows)

    @property
    def _width(self) -> int:
        return int(self.rows > 0)

    def _functions(self) -> tuple[Evaluate, Merge]:
        if self.evaluate is None or self.merge is None:
            raise ConfigurationError(
                f"a custom evaluation from JSON has no functions. Received: title={self.title!r}. "
                "Add it to one that has them: `CustomEvaluation(evaluate, merge, title=…) + this`."
            )
        return self.evaluate, self.merge

    def headline(self) -> dict[str, float]:
        """Numbers in the result: the result itself, or entries of a dict."""
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
            DataError: if the result has no numbers.
        """
        numbers = self.headline()
        if not numbers:
            raise DataError(
                "a plot needs a result that is a number, or a dict with numbers. "
                f"Received: {self.result!r:.80}. Draw `result` yourself."
            )
        bars = Figure(
            kind="numbers",
            label=self.title,
            caption=f"Numbers of {self.title}.",
            draw=lambda drawn: draw_bars(drawn, list(numbers), {"": [*numbers.values()]}),
            table=Table([["", "value"], *([name, number_text(v)] for name, v in numbers.items())]),
            size=(5.0, 1.4 + 0.3 * min(len(numbers), 30)),
        )
        return bars.plot(axes)

    def to_dict(self) -> dict[str, Any]:
        """Return title, result and number of examples as plain JSON values, without functions."""
        return {
            "name": self.name,
            "title": self.title,
            "result": self.result,
            "examples": self.examples,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restore an evaluation from `to_dict`, without functions; see the class.

        Raises:
            DataError: if `values` do not describe such an evaluation.
        """
        cls._check_keys(values, "title", "result", "examples")
        with reading("a CustomEvaluation"):
            text = _as_text(values["result"], "from_dict") if values["examples"] else None
            return cls(None, None, title=values["title"], result_text=text, rows=values["examples"])


def _as_text(value: Any, function: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"`{function}` must return JSON-serializable values: finite numbers, texts, lists, "
            f"dicts. Received: {value!r:.80} ({error})."
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON-serializable")
