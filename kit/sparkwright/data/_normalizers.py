"""The kinds of normalizers: fitted in one pass, kept as JSON."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from sparkwright.configuration import option
from sparkwright.errors import ConfigurationError
from sparkwright.storage.models import read_notes

from ._fitting import Columns, Labels, MeanAndStd, Range, fit_columns, read_arrays
from .normalizer import Normalizer
from .scales import ColumnScale, Scales


class _FittedNormalizer(Normalizer):
    """A normalizer that keeps something of each array."""

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
        self._scales()  # which refuse numbers that cannot be reverted

    def _scales(self) -> tuple[Scales, ...]:
        features = {name: self._scale(found) for name, found in self.features.items()}
        labels = {name: self._scale(found) for name, found in self.labels.items()}
        return (Scales(features=features, labels=labels),)

    @abstractmethod
    def _scale(self, found: Any) -> ColumnScale:
        """What is done to one array."""


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Standardize(_FittedNormalizer):
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
        return cls._fit(data, {}, labels=labels, columns=columns, per=per)

    def _scale(self, found: MeanAndStd) -> ColumnScale:
        return ColumnScale(
            per=found.per, shift=found.mean, divisor=found.std, columns=found.columns
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MinMaxScale(_FittedNormalizer):
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

    _array: ClassVar[type[Range]] = Range
    low: float = option(default=0.0, help="What the smallest number becomes.")
    high: float = option(default=1.0, help="What the largest number becomes, above `low`.")
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
        cls(low=low, high=high, features={})  # refuses them before a pass over the data
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

    low: float = option(default=0.0, help="What 0 becomes.")
    high: float = option(default=1.0, help="What `max_value` becomes, above `low`.")
    max_value: float = option(default=255.0, above=0, help="Largest value of a pixel.")
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
    """Several normalizers, applied one after the other and reverted in the opposite order.

    Attributes:
        normalizers: in the order of `transform`.

    Example:
        >>> images = ImageScale(inputs=("image",))
        >>> both = NormalizerChain((images, ImageScale(max_value=100, inputs=("percent",))))
        >>> both.transform({"image": [[51.0]], "percent": [[51.0]]})["percent"].tolist()
        [[0.51]]
    """

    normalizers: Sequence[Normalizer] = option(form=False, kw_only=False)

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        settings["normalizers"] = [normalizer_from_dict(s) for s in settings.get("normalizers", ())]
        return settings

    def _check(self) -> None:
        wrong = [type(n).__name__ for n in self.normalizers if not isinstance(n, Normalizer)]
        if wrong or not self.normalizers:
            raise ConfigurationError(
                f"a NormalizerChain needs one or more normalizers. Received: {wrong or '()'}."
            )
        object.__setattr__(self, "normalizers", tuple(self.normalizers))

    def _scales(self) -> tuple[Scales, ...]:
        return tuple(scales for each in self.normalizers for scales in each._scales())


_KINDS: dict[str, type[Normalizer]] = {
    kind.__name__: kind for kind in (Standardize, MinMaxScale, ImageScale, NormalizerChain)
}


def normalizer_from_dict(settings: Mapping[str, Any]) -> Normalizer:
    """The normalizer whose `to_dict` gave `settings`.

    Raises:
        ConfigurationError: if the class or an option is unknown, or a number makes no sense.

    Example:
        >>> normalizer_from_dict({"name": "ImageScale", "max_value": 15}).max_value
        15
    """
    name = settings.get("name") if isinstance(settings, Mapping) else None
    if name not in list(_KINDS):
        raise ConfigurationError(
            f"`name` must be one of {', '.join(map(repr, _KINDS))}. Received: name={name!r}."
        )
    return _KINDS[name].from_dict(settings)


def load_normalizer(url: str) -> Normalizer | None:
    """The normalizer that `SparkNetwork.save` kept with the model; None if it had none.

    TensorFlow is not needed, and of the file only this part is read.

    Args:
        url: of the `.keras` file. A local path counts as a URL.

    Raises:
        OSError: whatever the store says, naming the URL.
        DataError, ConfigurationError: if the file is damaged.
    """
    settings = read_notes(url).get("normalizer")
    return None if settings is None else normalizer_from_dict(settings)


def _check_order(low: float, high: float) -> None:
    if low >= high:
        raise ConfigurationError(
            f"`low` must be less than `high`. Received: low={low!r}, high={high!r}."
        )
