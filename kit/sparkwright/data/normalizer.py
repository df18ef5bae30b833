"""The base class of normalizers, which applies the scales of their columns."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from sparkwright.configuration import Configuration
from sparkwright.errors import ConfigurationError, DataError

from .dataset import Array, DataSet
from .scales import Direction, Group, Scales


class Normalizer(Configuration, ABC):
    """Base class of `Standardize`, `MinMaxScale`, `ImageScale` and `NormalizerChain`."""

    __slots__ = ()
    _tagged: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Convert NumPy numbers to Python numbers, and check the options."""
        made: Any = self
        for each in fields(made):
            value = getattr(self, each.name)
            if isinstance(value, np.number):
                object.__setattr__(self, each.name, value.item())
        Configuration.__post_init__(self)

    @abstractmethod
    def _scales(self) -> tuple[Scales, ...]:
        """Return the scales to apply, in order."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values, with the class name; see `normalizer_from_dict`."""
        settings = Configuration.to_dict(self)
        # Fingerprints must not distinguish 0 from 0.0.
        return {k: float(v) if isinstance(v, int) else v for k, v in settings.items()}

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The normalized inputs, in the order of fitting; None: all inputs."""
        names = self._names("features")
        return None if names is None else tuple(names)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The outputs with normalized labels, in the order of fitting."""
        return tuple(self._names("labels") or ())

    def transform(self, data: Any) -> Any:
        """Normalize features, and fitted labels.

        Computation is in float64. Floats keep their dtype; other numbers become float32. Masked
        steps and labels are unchanged.

        Args:
            data: a DataSet; a DistributedDataSet, which stays lazy; or features only: the array of
                the only input, or a dict input name -> array.

        Returns:
            Normalized data of the same type.

        Raises:
            DataError: if a name or shape differs from the fitted one; for a DistributedDataSet
                when it is read.
        """
        return self._everywhere(data, "apply", ("features", "labels"))

    def revert_features(self, data: Any) -> Any:
        """Invert `transform` for features; labels are unchanged.

        Args:
            data: the same types as for `transform`.
        """
        return self._everywhere(data, "revert", ("features",))

    def revert_labels(self, outputs: Any) -> Any:
        """Convert normalized labels or predictions back to their original units.

        Args:
            outputs: a DataSet or DistributedDataSet, whose labels are converted; or predictions: an
                array for one output, a dict output name -> array, or a list in the order of the
                fitted outputs.

        Returns:
            Data of the same type; unchanged if no labels were fitted.
        """
        return self._everywhere(outputs, "revert", ("labels",))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalizer) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self._digest())

    def _digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def _everywhere(self, data: Any, direction: Direction, groups: tuple[Group, ...]) -> Any:
        if isinstance(data, DataSet):
            return self._dataset(data, direction, groups)
        if isinstance(getattr(data, "data", None), DataSet):
            raise ConfigurationError(
                "a normalizer is applied to data sets and arrays. Received: "
                f"{type(data).__name__}, a table with its schema. Give its `.data`."
            )
        if isinstance(data, tuple):
            raise ConfigurationError(
                "a normalizer is applied to a DataSet, or to the array of features alone. "
                "Received: a tuple. For features and labels: `DataSet(features, labels)`; for "
                "several inputs: a dict of names, or a list."
            )
        if hasattr(data, "map_chunks"):
            return data.map_chunks(
                partial(self._dataset, direction=direction, groups=groups),
                step=f"normalizer {direction} {'+'.join(groups)} {self._digest()}",
            )
        return self._bare(data, direction, groups[0])

    def _bare(self, data: Any, direction: Direction, group: Group) -> Any:
        """Scale arrays that are not part of a data set."""
        names = self._names(group)
        if isinstance(data, Mapping):
            return self._arrays(group, direction, {str(n): np.asarray(a) for n, a in data.items()})
        if names == []:
            return data
        names = names or [group]  # all inputs, with any name
        if len(names) == 1:
            return self._arrays(group, direction, {names[0]: np.asarray(data)})[names[0]]
        if not isinstance(data, Sequence) or len(data) != len(names):
            raise DataError(
                f"arrays for {group} {names} must be a dict of names, or a list in this order. "
                f"Received: {type(data).__name__}."
            )
        arrays = {name: np.asarray(array) for name, array in zip(names, data, strict=True)}
        return list(self._arrays(group, direction, arrays).values())

    def _names(self, group: Group) -> list[str] | None:
        """Return the names of the scaled arrays; None: all features."""
        scales = self._scales()
        names = list(dict.fromkeys(name for step in scales for name in getattr(step, group)))
        every_input = group == "features" and any(step.inputs is not None for step in scales)
        return None if every_input and not names else names

    def _dataset(
        self, dataset: DataSet, direction: Direction, groups: tuple[Group, ...]
    ) -> DataSet:
        columns = dataset.columns()
        for group in groups:
            arrays: dict[str, Array] = getattr(dataset, group)
            if arrays:
                masks: dict[str, Array] = getattr(dataset, f"{group}_masks")
                changed = self._arrays(group, direction, arrays, masks)
                columns |= {f"{group}/{name}": array for name, array in changed.items()}
        return DataSet.from_columns(columns)

    def _arrays(
        self,
        group: Group,
        direction: Direction,
        arrays: Mapping[str, Array],
        masks: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        steps = self._scales()
        found = dict(arrays)
        for step in steps if direction == "apply" else reversed(steps):
            found = step.mapped(group, direction, found, masks)
        return found
