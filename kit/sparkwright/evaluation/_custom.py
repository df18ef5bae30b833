"""An evaluation that two functions of the user's define."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._binary_counts import check_number
from ._plots import COLOURS, finish, new_axes
from ._reading import reading
from ._tables import html_report

Array = NDArray[Any]
Evaluate = Callable[[Array, Array, Array | None], Any]
Merge = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CustomEvaluation(AbstractEvaluation):
    """Whatever `evaluate` finds in a batch, put together by `merge`.

    Batches and parts of the data are merged in an order that is not fixed, so `merge` must not
    mind: merge(a, b) == merge(b, a) and merge(a, merge(b, c)) == merge(merge(a, b), c). Sums of
    real numbers meet that only up to rounding; sums of integers, unions and maxima do.
    Results are kept as JSON text: functions get copies that they may change. Keep them small.

    Functions are not part of the JSON, and equality does not look at them. What `from_dict` reads
    has none: it shows its result, and it can be added to one that has them.

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

    evaluate: Evaluate | None
    merge: Merge | None
    title: str = field(default="custom", kw_only=True)
    result_text: str | None = field(default=None, kw_only=True)
    rows: int = field(default=0, kw_only=True)

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
        check_number("rows", self.rows, least=0)
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

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> "CustomEvaluation":
        """This evaluation with a batch evaluated and merged in.

        Args:
            labels: (n, ...).
            predictions: (n, ...).
            mask: (n, ...); where an example's is all 0, it does not count. What of a masked example
                counts is up to `evaluate`.
            records: not used.

        Raises:
            DataError: if there is not the same number of each, or the result is not JSON-able.
            ConfigurationError: if there are no functions.
        """
        was, said = np.asarray(labels), np.asarray(predictions)
        given = None if mask is None else np.asarray(mask)
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
            return self
        text = _as_text(evaluate(was, said, given), "evaluate")
        return self + replace(self, result_text=text, rows=counted)

    def __add__(self, other: "CustomEvaluation") -> "CustomEvaluation":
        """The evaluation of both sets of data together.

        Raises:
            DataError: if the two have different titles, or what `merge` gives is not JSON-able.
            ConfigurationError: if neither has functions.
        """
        if not isinstance(other, CustomEvaluation):
            return NotImplemented
        if self.title != other.title:
            raise DataError(
                "only custom evaluations of the same title can be added. "
                f"Received: {self.title!r} and {other.title!r}."
            )
        able = self if self.merge is not None else other
        text = self.result_text if other.result_text is None else other.result_text
        if self.result_text is not None and other.result_text is not None:
            text = _as_text(able._functions()[1](self.result, other.result), "merge")
        return replace(able, result_text=text, rows=self.rows + other.rows)

    def __eq__(self, other: object) -> bool:
        """Same title, same result, same number of examples."""
        return (
            isinstance(other, CustomEvaluation)
            and (self.title, self.rows) == (other.title, other.rows)
            and self.result_text == other.result_text
        )

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

    def summary(self) -> str:
        """The result as JSON."""
        return f"{self._head}\n\n{json.dumps(self.result, indent=2, ensure_ascii=False)}"

    def __repr__(self) -> str:
        return f"CustomEvaluation({self.title!r}, {self.examples} examples)"

    def _repr_html_(self) -> str:
        text = json.dumps(self.result, indent=2, ensure_ascii=False)
        return html_report(self._head, f"<pre>{escape(text)}</pre>")

    @property
    def _head(self) -> str:
        return f"Custom evaluation {self.title!r} of {self.examples:,} examples"

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
        drawn = new_axes(height=1.4 + 0.3 * min(len(numbers), 30)) if axes is None else axes
        drawn.barh(list(numbers), list(numbers.values()), height=0.6, color=COLOURS[0])
        drawn.invert_yaxis()
        return finish(drawn, title=self.title, x="", y="")

    def to_dict(self) -> dict[str, Any]:
        """Title, result and number of examples, as plain JSON values; without the functions."""
        return {
            "name": self.name,
            "title": self.title,
            "result": self.result,
            "examples": self.examples,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "CustomEvaluation":
        """What `to_dict` gave, without functions: it can be shown, and added to one with them.

        Raises:
            DataError: if `values` is no such evaluation.
        """
        cls._check_name(values, "title", "result", "examples")
        with reading("a CustomEvaluation"):
            text = _as_text(values["result"], "from_dict") if values["examples"] else None
            return cls(None, None, title=values["title"], result_text=text, rows=values["examples"])

    def with_result_from(self, values: Mapping[str, Any]) -> "CustomEvaluation":
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
