"""What all normalizers can do, given the scales of their columns."""

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
    """What `Standardize`, `MinMaxScale`, `ImageScale` and `NormalizerChain` can do."""

    __slots__ = ()
    _tagged: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Turn NumPy's numbers into Python's, and check the options."""
        made: Any = self
        for each in fields(made):
            value = getattr(self, each.name)
            if isinstance(value, np.number):
                object.__setattr__(self, each.name, value.item())
        Configuration.__post_init__(self)

    @abstractmethod
    def _scales(self) -> tuple[Scales, ...]:
        """What is done, in order."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able values, with the name of the class; see `normalizer_from_dict`."""
        settings = Configuration.to_dict(self)
        # 0 and 0.0 are the same setting, and so they are in fingerprints.
        return {k: float(v) if isinstance(v, int) else v for k, v in settings.items()}

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Inputs that are scaled, in the order in which they were fitted; None: all there are."""
        names = self._names("features")
        return None if names is None else tuple(names)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Outputs whose labels are scaled, in the order in which they were fitted."""
        return tuple(self._names("labels") or ())

    def transform(self, data: Any) -> Any:
        """Normalize features, and labels if they were fitted.

        Numbers become float32, unless they are floats already; they are computed in float64.
        Steps and labels that a mask leaves out stay as they are.

        Args:
            data: a DataSet; a DistributedDataSet, which stays lazy; features alone: the array of
                the only input, or a dict input name -> array.

        Returns:
            The same kind of thing.

        Raises:
            DataError: if a name or shape is not what was fitted; for a DistributedDataSet when it
                is read.
        """
        return self._everywhere(data, "apply", ("features", "labels"))

    def revert_features(self, data: Any) -> Any:
        """The inverse of `transform` for features; labels stay.

        Args:
            data: as for `transform`.
        """
        return self._everywhere(data, "revert", ("features",))

    def revert_labels(self, outputs: Any) -> Any:
        """Labels, or what a network for regression predicts, in their own units again.

        Args:
            outputs: a DataSet or DistributedDataSet, whose labels are reverted; or what a network
                predicts: an array for one output, a dict output name -> array, or a list in the
                order of the fitted outputs.

        Returns:
            The same kind of thing; unchanged if no labels were fitted.
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
        """Arrays that are in no data set."""
        names = self._names(group)
        if isinstance(data, Mapping):
            return self._arrays(group, direction, {str(n): np.asarray(a) for n, a in data.items()})
        if names == []:
            return data
        names = names or [group]  # all inputs, whatever their names
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
        """Names of the arrays that change; None: all features, whatever their names."""
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
