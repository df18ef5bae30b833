"""How data is divided into what is trained on, validated with and tested with."""

import math
from typing import Literal

from sparkwright.configuration import (
    Configuration,
    Expression,
    call_to_code,
    configuration,
    option,
)
from sparkwright.errors import ConfigurationError


@configuration
class DataSplit(Configuration):
    """Shares of the parts, and how they are drawn. The rest is trained on.

    Example:
        >>> DataSplit(test=0.2).shares
        {'train': 0.7, 'validation': 0.1, 'test': 0.2}
    """

    validation: float = option(
        default=0.1,
        minimum=0.0,
        maximum=0.9,
        label="Share for validation",
        help="Watched while training, as by early stopping. 0: none.",
    )
    test: float = option(
        default=0.1,
        minimum=0.0,
        maximum=0.9,
        label="Share for the test",
        help="Kept for the end: what the network never saw. 0: none.",
    )
    kind: Literal["random", "stratified"] = option(
        default="random",
        label="Drawn",
        help="random: sizes vary by chance, and nothing is counted. stratified: each part has its "
        "share of every class; counts the classes first.",
    )
    seed: int = option(default=0, minimum=0, help="The same seed gives the same parts.")

    def _check(self) -> None:
        if self.validation + self.test > 0.95 + 1e-9:
            raise ConfigurationError(
                "`validation` and `test` must leave at least 0.05 to train on. Received: "
                f"validation={self.validation}, test={self.test}."
            )

    @property
    def shares(self) -> dict[str, float]:
        """Name of each part -> its share; parts of share 0 are left out. They sum to 1."""
        rest = math.fsum([1.0, -self.validation, -self.test])
        found = {"train": round(rest, 10), "validation": self.validation, "test": self.test}
        return {name: share for name, share in found.items() if share > 0}

    def to_code(self, variable: str = "data", *, seed: str | None = None) -> str:
        """Python source that splits `variable`; empty if all is trained on.

        Args:
            variable: the name of the data; default "data".
            seed: Python source that stands in place of the seed, such as a name; default None:
                the seed itself.

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
