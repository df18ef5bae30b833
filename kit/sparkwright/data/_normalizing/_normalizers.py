"""Normalizers: fitted in one pass, applied lazily, reverted, kept as JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sparkwright.errors import ConfigurationError

from ._fitted import MeanAndStd, Range, check_keys, each, plain, read
from ._fitting import Columns, Labels, fit_columns
from ._normalizer import Normalizer
from ._scales import ColumnScale, Scales


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Standardize(Normalizer):
    """`(x - mean) / std` for each column; made by `fit`.

    A column of equal numbers becomes 0.

    Attributes:
        features: input name -> mean and deviation.
        labels: output name -> mean and deviation; empty unless fitted.

    Example:
        >>> from sparkwright.data import DataSet
        >>> normalizer = Standardize.fit(DataSet([[1.0, 5.0], [3.0, 5.0]]))
        >>> normalizer.transform([[1.0, 5.0], [3.0, 5.0]]).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """

    features: Mapping[str, MeanAndStd]
    labels: Mapping[str, MeanAndStd] = field(default_factory=dict[str, MeanAndStd])

    @classmethod
    def fit(
        cls,
        data: Any,
        *,
        labels: Labels = False,
        columns: Columns = None,
        per: Literal["feature", "element"] = "feature",
    ) -> "Standardize":
        """Find mean and deviation in one pass, in float64; masked steps and labels do not count.

        Args:
            data: a DataSet, or a DistributedDataSet: then one Spark job.
            labels: labels for regression too: True, or names of outputs. Default False.
            columns: what to normalize: positions on the last axis, or names of columns of a table;
                or input name -> these (None: all of them), and other inputs stay as they are.
                Default None: all of all inputs.
            per: "feature" (default): one mean for each position of the last axis: a column of a
                table, a feature of a sequence, a channel of an image. "element": one for each
                element of an example, such as a pixel.

        Raises:
            ConfigurationError: naming the option.
            DataError: if there are no examples or no such names, if labels are class numbers, or
                for NaN and infinite numbers, naming column and partition.
        """
        features, outputs = fit_columns(data, labels=labels, columns=columns, per=per)
        return cls(features=each(MeanAndStd.of, features), labels=each(MeanAndStd.of, outputs))

    def to_dict(self) -> dict[str, Any]:
        """See `Normalizer.to_dict`."""
        return {
            "name": "Standardize",
            "features": {name: plain(found) for name, found in self.features.items()},
            "labels": {name: plain(found) for name, found in self.labels.items()},
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Standardize":
        """The inverse of `to_dict`; see `normalizer_from_dict`."""
        check_keys(cls.__name__, settings, {"features", "labels"})
        return cls(
            features=read(MeanAndStd, settings.get("features")),
            labels=read(MeanAndStd, settings.get("labels", {})),
        )

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be undone."""
        self._scales()

    def _scales(self) -> tuple[Scales, ...]:
        def scale(found: MeanAndStd) -> ColumnScale:
            return ColumnScale(
                per=found.per, shift=found.mean, divisor=found.std, columns=found.columns
            )

        return (Scales(features=each(scale, self.features), labels=each(scale, self.labels)),)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MinMaxScale(Normalizer):
    """`(x - minimum) / (maximum - minimum) * (high - low) + low`; made by `fit`.

    A column of equal numbers becomes `low`. Numbers outside the range that was fitted end up
    outside `low` to `high`.

    Attributes:
        low: what the smallest number becomes; default 0.
        high: what the largest number becomes; default 1.
        features: input name -> range.
        labels: output name -> range; empty unless fitted.

    Example:
        >>> from sparkwright.data import DataSet
        >>> normalizer = MinMaxScale.fit(DataSet([[1.0], [2.0], [5.0]]), low=-1)
        >>> normalizer.transform([[1.0], [2.0], [5.0]]).tolist()
        [[-1.0], [-0.5], [1.0]]
    """

    low: float = 0.0
    high: float = 1.0
    features: Mapping[str, Range]
    labels: Mapping[str, Range] = field(default_factory=dict[str, Range])

    @classmethod
    def fit(
        cls,
        data: Any,
        *,
        low: float = 0.0,
        high: float = 1.0,
        labels: Labels = False,
        columns: Columns = None,
        per: Literal["feature", "element"] = "feature",
    ) -> "MinMaxScale":
        """Find smallest and largest number in one pass; masked steps and labels do not count.

        Args:
            data: as for `Standardize.fit`, and so are `labels`, `columns` and `per`.
            low: what the smallest number becomes; default 0.
            high: what the largest number becomes, above `low`; default 1.
            labels: default False.
            columns: default None: all of all inputs.
            per: default "feature".

        Raises:
            ConfigurationError: naming the option.
            DataError: as for `Standardize.fit`.
        """
        _check_bounds(low, high)
        features, outputs = fit_columns(data, labels=labels, columns=columns, per=per)
        return cls(
            low=low, high=high, features=each(Range.of, features), labels=each(Range.of, outputs)
        )

    def to_dict(self) -> dict[str, Any]:
        """See `Normalizer.to_dict`."""
        return {
            "name": "MinMaxScale",
            "low": float(self.low),
            "high": float(self.high),
            "features": {name: plain(found) for name, found in self.features.items()},
            "labels": {name: plain(found) for name, found in self.labels.items()},
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "MinMaxScale":
        """The inverse of `to_dict`; see `normalizer_from_dict`."""
        check_keys(cls.__name__, settings, {"low", "high", "features", "labels"})
        return cls(
            low=settings.get("low", 0.0),
            high=settings.get("high", 1.0),
            features=read(Range, settings.get("features")),
            labels=read(Range, settings.get("labels", {})),
        )

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be undone."""
        _check_bounds(self.low, self.high)
        self._scales()

    def _scales(self) -> tuple[Scales, ...]:
        def scale(found: Range) -> ColumnScale:
            width = found.maximum - found.minimum
            return ColumnScale(
                per=found.per,
                shift=found.minimum,
                divisor=np.where(width > 0, width, 1.0),
                columns=found.columns,
                factor=self.high - self.low,
                offset=self.low,
            )

        return (Scales(features=each(scale, self.features), labels=each(scale, self.labels)),)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ImageScale(Normalizer):
    """`x / max_value * (high - low) + low` for every feature; needs no fitting.

    Attributes:
        low: what 0 becomes; default 0.
        high: what `max_value` becomes; default 1.
        max_value: largest value of a pixel; default 255.
        inputs: names of the inputs that are images; default None: all.

    Example:
        >>> ImageScale().transform(np.array([[0, 51, 255]], np.uint8)).round(2).tolist()
        [[0.0, 0.20000000298023224, 1.0]]
    """

    low: float = 0.0
    high: float = 1.0
    max_value: float = 255.0
    inputs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be undone.

        Raises:
            ConfigurationError: naming the option.
        """
        _check_bounds(self.low, self.high)
        if not (_is_number(self.max_value) and self.max_value > 0):
            raise ConfigurationError(
                "`max_value` must be a finite number greater than 0. "
                f"Received: max_value={self.max_value!r}."
            )
        if self.inputs is not None:
            names = (self.inputs,) if isinstance(self.inputs, str) else tuple(self.inputs)
            object.__setattr__(self, "inputs", names)

    def to_dict(self) -> dict[str, Any]:
        """See `Normalizer.to_dict`."""
        return {
            "name": "ImageScale",
            "low": float(self.low),
            "high": float(self.high),
            "max_value": float(self.max_value),
            "inputs": None if self.inputs is None else list(self.inputs),
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "ImageScale":
        """The inverse of `to_dict`; see `normalizer_from_dict`."""
        check_keys(cls.__name__, settings, {"low", "high", "max_value", "inputs"})
        return cls(**{name: value for name, value in settings.items() if name != "name"})

    def _scales(self) -> tuple[Scales, ...]:
        scale = ColumnScale(
            per="value",
            shift=np.zeros(1),
            divisor=np.full(1, float(self.max_value)),
            factor=self.high - self.low,
            offset=self.low,
        )
        if self.inputs is None:
            return (Scales(inputs=scale),)
        return (Scales(features=dict.fromkeys(self.inputs, scale)),)


@dataclass(frozen=True, eq=False, slots=True)
class NormalizerChain(Normalizer):
    """Several normalizers, applied one after the other and reverted in the opposite order.

    Attributes:
        normalizers: in the order of `transform`.

    Example:
        >>> images = ImageScale(inputs=("image",))
        >>> both = NormalizerChain((images, ImageScale(max_value=100, inputs=("percent",))))
        >>> both.transform({"image": [[51.0]], "percent": [[51.0]]})["percent"].tolist()
        [[0.51]]
    """

    normalizers: Sequence[Normalizer]

    def __post_init__(self) -> None:
        """Refuse anything but normalizers.

        Raises:
            ConfigurationError: naming what was received.
        """
        wrong = [type(n).__name__ for n in self.normalizers if not isinstance(n, Normalizer)]
        if wrong or not self.normalizers:
            raise ConfigurationError(
                f"a NormalizerChain needs one or more normalizers. Received: {wrong or '()'}."
            )
        object.__setattr__(self, "normalizers", tuple(self.normalizers))

    def to_dict(self) -> dict[str, Any]:
        """See `Normalizer.to_dict`."""
        return {
            "name": "NormalizerChain",
            "normalizers": [normalizer.to_dict() for normalizer in self.normalizers],
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "NormalizerChain":
        """The inverse of `to_dict`; see `normalizer_from_dict`."""
        check_keys(cls.__name__, settings, {"normalizers"})
        return cls(tuple(normalizer_from_dict(s) for s in settings.get("normalizers", ())))

    def _scales(self) -> tuple[Scales, ...]:
        return tuple(scales for n in self.normalizers for scales in n._scales())  # pyright: ignore[reportPrivateUsage]


def normalizer_from_dict(settings: Mapping[str, Any]) -> Normalizer:
    """The normalizer whose `to_dict` gave `settings`.

    Raises:
        ConfigurationError: if the class or an option is unknown, or a number makes no sense.

    Example:
        >>> normalizer_from_dict({"name": "ImageScale", "max_value": 15}).max_value
        15
    """
    kinds: dict[str, Any] = {
        kind.__name__: kind for kind in (Standardize, MinMaxScale, ImageScale, NormalizerChain)
    }
    name = settings.get("name") if isinstance(settings, Mapping) else None
    if name not in list(kinds):
        raise ConfigurationError(
            f"`name` must be one of {', '.join(map(repr, kinds))}. Received: name={name!r}."
        )
    return kinds[name].from_dict(settings)


def _check_bounds(low: Any, high: Any) -> None:
    if not (_is_number(low) and _is_number(high) and low < high):
        raise ConfigurationError(
            "`low` and `high` must be finite numbers, `low` the smaller one. "
            f"Received: low={low!r}, high={high!r}."
        )


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )
