"""What an evaluation must offer to be run over distributed data."""

from typing import Any, Protocol, Self

from numpy.typing import ArrayLike


class AbstractEvaluation(Protocol):
    """A value that counts predictions; evaluations of parts add up to that of the whole.

    An instance without data is the prototype that executors start from. Implementations are
    immutable, and `a + (b + c)`, `(a + b) + c` and the evaluation of all data at once are equal.
    """

    def updated(
        self, labels: ArrayLike, predictions: ArrayLike, *, mask: ArrayLike | None = None
    ) -> Self:
        """This evaluation with a batch counted in; the instance itself does not change."""
        ...

    def __add__(self, other: Self, /) -> Self:
        """The evaluation of both sets of data together."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values with a `"name"`; `from_dict` of the class is the inverse."""
        ...

    def summary(self) -> str:
        """A report for a terminal."""
        ...
