"""The split of data into training, validation and test data."""

import math
from typing import Literal

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.python_code import Expression, call_to_code


@configuration
class DataSplit(Configuration):
    """Fractions of validation and test data, and how they are drawn; the rest is training data.

    Example:
        >>> DataSplit(test=0.2).shares
        {'train': 0.7, 'validation': 0.1, 'test': 0.2}
    """

    validation: float = option(
        default=0.1,
        minimum=0.0,
        maximum=0.9,
        label="Validation fraction",
        help="Evaluated after each epoch, such as for early stopping. 0: none.",
    )
    test: float = option(
        default=0.1,
        minimum=0.0,
        maximum=0.9,
        label="Test fraction",
        help="Evaluated after training only. 0: none.",
    )
    kind: Literal["random", "stratified"] = option(
        default="random",
        label="Sampling",
        help="random: sizes vary slightly. stratified: each part has the same proportion of every "
        "class, which are counted first.",
    )
    seed: int = option(default=0, minimum=0, help="The same seed gives the same split.")

    def _check(self) -> None:
        if self.validation + self.test > 0.95 + 1e-9:
            raise ConfigurationError(
                "`validation` and `test` must leave at least 0.05 to train on. Received: "
                f"validation={self.validation}, test={self.test}."
            )

    @property
    def shares(self) -> dict[str, float]:
        """Name of each part -> its fraction, with a sum of 1; parts of fraction 0 are left out."""
        rest = math.fsum([1.0, -self.validation, -self.test])
        found = {"train": round(rest, 10), "validation": self.validation, "test": self.test}
        return {name: share for name, share in found.items() if share > 0}

    def to_code(self, variable: str = "data", *, seed: str | None = None) -> str:
        """Return Python source that splits `variable`; empty if all data is training data.

        Args:
            variable: name of the data variable; default "data".
            seed: Python expression for the seed, such as a name; default None: the seed's value.

        Example:
            >>> print(DataSplit(validation=0.0, test=0.25).to_code("digits"), end="")
            train, test = digits.random_split([0.75, 0.25], seed=0)
        """
        shares = self.shares
        if len(shares) < 2:
            return ""
        call = call_to_code(
            f"{', '.join(shares)} = {variable}.{self.kind}_split",
            list(shares.values()),
            seed=self.seed if seed is None else Expression(seed),
        )
        return f"{call}\n"
