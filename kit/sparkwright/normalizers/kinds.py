"""The normalizers; they are fitted in one pass and stored as JSON."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from sparkwright.configuration import choose_by_name, option
from sparkwright.errors import ConfigurationError

from ._fitting import Columns, Labels, MeanAndStd, Range, fit_columns, read_arrays
from .normalizer import ColumnScale, Normalizer, Scales


class _FittedNormalizer(Normalizer):
    """A normalizer with fitted statistics of each array."""

    __slots__ = ()
    _array: ClassVar[type[Any]]
    features: Mapping[str, Any]
    labels: Mapping[str, Any]

    @classmethod
    def _fit(cls, data: Any, options: Mapping[str, Any], **which: Any) -> Self:
        make: Any = cls
        fitted = fit_columns(data, **which)
        arrays = {
            group: {name: cls._array.of(columns) for name, columns in found.items()}
            for group, found in fitted.items()
        }
        return make(**arrays, **options)

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for group in settings.keys() & {"features", "labels"}:
            settings[group] = read_arrays(cls._array, settings[group])
        return settings

    def _check(self) -> None:
        self._scales()  # raises for scales that cannot be reverted

    def _scales(self) -> tuple[Scales, ...]:
        features = {name: self._scale(found) for name, found in self.features.items()}
        labels = {name: self._scale(found) for name, found in self.labels.items()}
        return (Scales(features=features, labels=labels),)

    @abstractmethod
    def _scale(self, found: Any) -> ColumnScale:
        """Return the scale of one array."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Standardize(_FittedNormalizer):
    """Compute `(x - mean) / std` for each column; created by `fit`.

    A constant column becomes 0.

    Attributes:
        features: input name -> mean and standard deviation.
        labels: output name -> mean and standard deviation; empty unless fitted.

    Example:
        >>> from sparkwright.data import DataSet
        >>> normalizer = Standardize.fit(DataSet([[1.0, 5.0], [3.0, 5.0]]))
        >>> normalizer.transform([[1.0, 5.0], [3.0, 5.0]]).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """

    _array: ClassVar[type[MeanAndStd]] = MeanAndStd
    features: Mapping[str, MeanAndStd] = option(form=False)
    labels: Mapping[str, MeanAndStd] = option(default_factory=dict, form=False)

    @classmethod
    def fit(
        cls,
        data: Any,
        *,
        labels: Labels = False,
        columns: Columns = None,
        per: Literal["feature", "element"] = "feature",
    ) -> "Standardize":
        """Compute mean and standard deviation in one pass, in float64, without masked values.

        Args:
            data: a DataSet, or a DistributedDataSet (one Spark job).
            labels: True, or names of outputs, to also normalize regression labels. Default False.
            columns: columns to normalize: positions on the last axis, or names of table columns. A
                dict of input name -> columns (None: all) leaves other inputs unchanged. Default
                None: all columns of all inputs.
            per: "feature" (default): one mean per position on the last axis, such as a table
                column, a feature of a sequence or a channel of an image. "element": one mean per
                element of an example, such as a pixel.

        Raises:
            ConfigurationError: if an option is invalid.
            DataError: if there are no examples, a name is unknown, labels are class numbers, or
                values are NaN or infinite. For the latter, the message names column and partition.
        """
        return cls._fit(data, {}, labels=labels, columns=columns, per=per)

    def _scale(self, found: MeanAndStd) -> ColumnScale:
        return ColumnScale(
            per=found.per, shift=found.mean, divisor=found.std, columns=found.columns
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MinMaxScale(_FittedNormalizer):
    """Compute `(x - minimum) / (maximum - minimum) * (high - low) + low`; created by `fit`.

    A constant column becomes `low`. Values outside the fitted range are not clipped.

    Attributes:
        low: result for the minimum; default 0.
        high: result for the maximum; default 1.
        features: input name -> range.
        labels: output name -> range; empty unless fitted.

    Example:
        >>> from sparkwright.data import DataSet
        >>> normalizer = MinMaxScale.fit(DataSet([[1.0], [2.0], [5.0]]), low=-1)
        >>> normalizer.transform([[1.0], [2.0], [5.0]]).tolist()
        [[-1.0], [-0.5], [1.0]]
    """

    _array: ClassVar[type[Range]] = Range
    low: float = option(default=0.0, help="Result for the minimum.")
    high: float = option(default=1.0, help="Result for the maximum; greater than `low`.")
    features: Mapping[str, Range] = option(form=False)
    labels: Mapping[str, Range] = option(default_factory=dict, form=False)

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
        """Compute minimum and maximum in one pass, without masked values.

        Args:
            data: a DataSet, or a DistributedDataSet (one Spark job).
            low: result for the minimum; default 0.
            high: result for the maximum, greater than `low`; default 1.
            labels: as for `Standardize.fit`; default False.
            columns: as for `Standardize.fit`. Default None: all columns of all inputs.
            per: as for `Standardize.fit`; default "feature".

        Raises:
            ConfigurationError: if an option is invalid.
            DataError: as for `Standardize.fit`.
        """
        cls(low=low, high=high, features={})  # raises before the pass over the data
        options = {"low": low, "high": high}
        return cls._fit(data, options, labels=labels, columns=columns, per=per)

    def _check(self) -> None:
        _check_order(self.low, self.high)
        self._scales()

    def _scale(self, found: Range) -> ColumnScale:
        width = found.maximum - found.minimum
        return ColumnScale(
            per=found.per,
            shift=found.minimum,
            divisor=np.where(width > 0, width, 1.0),
            columns=found.columns,
            factor=self.high - self.low,
            offset=self.low,
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ImageScale(Normalizer):
    """Compute `x / max_value * (high - low) + low` for every feature; needs no fitting.

    Attributes:
        low: result for 0; default 0.
        high: result for `max_value`; default 1.
        max_value: maximum pixel value; default 255.
        inputs: names of the inputs to scale; default None: all inputs.

    Example:
        >>> ImageScale().transform(np.array([[0, 51, 255]], np.uint8)).round(2).tolist()
        [[0.0, 0.20000000298023224, 1.0]]
    """

    low: float = option(default=0.0, help="Result for 0.")
    high: float = option(default=1.0, help="Result for `max_value`; greater than `low`.")
    max_value: float = option(default=255.0, above=0, help="Maximum pixel value.")
    inputs: tuple[str, ...] | None = option(default=None, form=False)

    def _check(self) -> None:
        _check_order(self.low, self.high)
        if self.inputs is not None:
            names = (self.inputs,) if isinstance(self.inputs, str) else tuple(self.inputs)
            object.__setattr__(self, "inputs", names)

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
    """Apply several normalizers in order; revert them in reverse order.

    Attributes:
        normalizers: the normalizers in the order of `transform`.

    Example:
        >>> images = ImageScale(inputs=("image",))
        >>> both = NormalizerChain((images, ImageScale(max_value=100, inputs=("percent",))))
        >>> both.transform({"image": [[51.0]], "percent": [[51.0]]})["percent"].tolist()
        [[0.51]]
    """

    normalizers: Sequence[Normalizer] = option(form=False, kw_only=False)

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        settings["normalizers"] = [Normalizer.from_dict(s) for s in settings.get("normalizers", ())]
        return settings

    def _check(self) -> None:
        wrong = [type(n).__name__ for n in self.normalizers if not isinstance(n, Normalizer)]
        if wrong or not self.normalizers:
            raise ConfigurationError(
                "the items of a NormalizerChain must be one or more normalizers. Received: "
                f"{wrong or '()'}."
            )
        object.__setattr__(self, "normalizers", tuple(self.normalizers))

    def _scales(self) -> tuple[Scales, ...]:
        return tuple(scales for each in self.normalizers for scales in each._scales())


choose_by_name(Normalizer, Standardize, MinMaxScale, ImageScale, NormalizerChain)


def _check_order(low: float, high: float) -> None:
    if low >= high:
        raise ConfigurationError(
            f"`low` must be less than `high`. Received: low={low!r}, high={high!r}."
        )
