"""What every evaluation is: a value that counts predictions and adds up."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError


class AbstractEvaluation(ABC):
    """A value that counts predictions; evaluations of parts add up to that of the whole.

    An instance without data is the prototype that executors start from: it carries the options.
    Implementations are immutable, and `a + (b + c)`, `(a + b) + c` and the evaluation of all data
    at once are equal, to the last bit. Sums of real numbers are therefore kept exactly, see
    `_exact_sums`.

    Attributes:
        name: what `to_dict` calls this kind of evaluation.
    """

    __slots__ = ()

    name: ClassVar[str]

    @abstractmethod
    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> Self:
        """This evaluation with a batch counted in; the instance itself does not change.

        Args:
            labels: what was, (n, ...).
            predictions: what the network said, (n, ...).
            mask: (n,), or (n, T) per step; rows where it is 0 do not count, whatever they hold.
            records: n JSON-able names of the examples, for evaluations that remember some.

        Raises:
            DataError: if shapes do not fit or a prediction is NaN; the message names the row.
        """

    @abstractmethod
    def __add__(self, other: Any, /) -> Self:
        """The evaluation of both sets of data together.

        Raises:
            DataError: if the two have different options.
        """

    @property
    @abstractmethod
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""

    @property
    def keeps_rows(self) -> bool:
        """Whether its size grows with the rows counted; False unless a kind says otherwise."""
        return False

    @property
    def keeps_records(self) -> bool:
        """Whether it remembers names of examples; False unless a kind says otherwise."""
        return False

    def headline(self) -> dict[str, float]:
        """The few numbers that `compare` sets side by side; none unless a kind has some."""
        return {}

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values with a `"name"`; `from_dict` is the inverse."""

    @classmethod
    @abstractmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is no such evaluation.
        """

    @abstractmethod
    def summary(self) -> str:
        """A report for a terminal."""

    @abstractmethod
    def _repr_html_(self) -> str:
        """The same as HTML, for a notebook: no scripts, no style sheet."""

    @abstractmethod
    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw with matplotlib.

        Args:
            axes: the matplotlib Axes to draw on; default None: of a new figure.

        Returns:
            The axes.

        Raises:
            ConfigurationError: if matplotlib is not installed.
        """

    def __str__(self) -> str:
        return self.summary()

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`.

        Raises:
            DataError: if `text` is not JSON of such an evaluation.
        """
        try:
            values = strict_json(text)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"an evaluation must be JSON. Received: {text[:40]!r}: {error}."
            ) from None
        return cls.from_dict(values if isinstance(values, dict) else {})

    @classmethod
    def _check_name(cls, values: Mapping[str, Any], *keys: str) -> None:
        """Raise DataError unless `values` is of this kind and has `keys`."""
        missing = [key for key in keys if key not in values]
        if values.get("name") != cls.name or missing:
            raise DataError(
                f'{cls.__name__} is read from a dict with "name": "{cls.name}" and '
                f"{', '.join(map(repr, keys))}. Received: name={values.get('name')!r} with "
                f"{sorted(values)}."
            )
