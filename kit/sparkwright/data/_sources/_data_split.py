"""How data is divided into what is trained on, validated with and tested with."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option

SPLIT_OPTIONS = (
    Option(
        name="validation",
        kind="float",
        default=0.1,
        minimum=0.0,
        maximum=0.9,
        label="Share for validation",
        help="Watched while training, as by early stopping. 0: none.",
    ),
    Option(
        name="test",
        kind="float",
        default=0.1,
        minimum=0.0,
        maximum=0.9,
        label="Share for the test",
        help="Kept for the end: what the network never saw. 0: none.",
    ),
    Option(
        name="kind",
        kind="choice",
        choices=("random", "stratified"),
        default="random",
        label="Drawn",
        help="stratified: each part has its share of every class; counts the classes first.",
    ),
    Option(
        name="seed",
        kind="int",
        default=0,
        minimum=0,
        help="The same seed gives the same parts.",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSplit:
    """Shares of the parts, and how they are drawn. What is left is trained on.

    Attributes:
        validation: share from 0 to below 1; default 0.1. 0: no such part.
        test: likewise; default 0.1.
        kind: "random" (default): sizes come out by chance, nothing is counted. "stratified": each
            part has its share of every class.
        seed: default 0.

    Example:
        >>> DataSplit(test=0.2).shares
        {'train': 0.7, 'validation': 0.1, 'test': 0.2}
    """

    validation: float = 0.1
    test: float = 0.1
    kind: Literal["random", "stratified"] = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check each option.

        Raises:
            ConfigurationError: naming the option and what it received.
        """
        for option in SPLIT_OPTIONS:
            option.check(getattr(self, option.name))
        for name in ("validation", "test"):
            # NumPy's floats are floats too, but do not look like them in code.
            object.__setattr__(self, name, float(getattr(self, name)))
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
            variable: what the data is called; default "data".
            seed: Python source that stands in place of the seed, such as a name; default None:
                the seed itself.

        Example:
            >>> print(DataSplit(validation=0.0, test=0.25).to_code("digits"), end="")
            train, test = digits.random_split([0.75, 0.25], seed=0)
        """
        shares = self.shares
        if len(shares) < 2:
            return ""
        weights = ", ".join(map(repr, shares.values()))
        told = self.seed if seed is None else seed
        return f"{', '.join(shares)} = {variable}.{self.kind}_split([{weights}], seed={told})\n"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {
            "validation": self.validation,
            "test": self.test,
            "kind": self.kind,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; what is left out takes its default.

        Raises:
            ConfigurationError: if a field is unknown or of the wrong kind.
        """
        known = {option.name for option in SPLIT_OPTIONS}
        unknown = [str(name) for name in settings if name not in known]
        if unknown:
            raise ConfigurationError(
                f"a split has validation, test, kind and seed. Received: {', '.join(unknown)}."
            )
        return cls(**settings)
