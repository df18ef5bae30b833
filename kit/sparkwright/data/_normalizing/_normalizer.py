"""What all normalizers can do, given the scales of their columns."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from sparkwright.data._dataset import Array, DataSet
from sparkwright.errors import ConfigurationError, DataError

from ._scales import Direction, Scales

Group = Literal["features", "labels"]


class Normalizer(ABC):
    """What `Standardize`, `MinMaxScale`, `ImageScale` and `NormalizerChain` can do."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """JSON-able values, with the name of the class; see `normalizer_from_dict`."""

    @abstractmethod
    def _scales(self) -> tuple[Scales, ...]:
        """What is done, in order."""

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
        group = groups[0]
        if isinstance(data, Mapping):
            arrays = {str(name): np.asarray(array) for name, array in data.items()}
            return self._arrays(group, direction, arrays, {})
        names = self._names(group)
        if names is None:
            return self._arrays(group, direction, {group: np.asarray(data)}, {})[group]
        if not names:
            return data
        if isinstance(data, Sequence) and len(data) == len(names) > 1:
            arrays = {name: np.asarray(array) for name, array in zip(names, data, strict=True)}
            return list(self._arrays(group, direction, arrays, {}).values())
        if len(names) > 1:
            raise DataError(
                f"arrays for {group} {names} must be a dict of names, or a list in this order. "
                f"Received: {type(data).__name__}."
            )
        return self._arrays(group, direction, {names[0]: np.asarray(data)}, {})[names[0]]

    def _names(self, group: Group) -> list[str] | None:
        """Names of the arrays that change; None: all features, whatever their names."""
        scales = self._scales()
        if group == "features" and any(step.inputs is not None for step in scales):
            named = [name for step in scales for name in step.features]
            return list(dict.fromkeys(named)) or None
        return list(dict.fromkeys(name for step in scales for name in getattr(step, group)))

    def _dataset(
        self, dataset: DataSet, direction: Direction, groups: tuple[Group, ...]
    ) -> DataSet:
        changed: dict[str, dict[str, Array]] = {
            "features": dataset.features, "labels": dataset.labels
        }  # fmt: skip
        for group in groups:
            if changed[group]:
                masks: dict[str, Array] = getattr(dataset, f"{group}_masks")
                changed[group] = self._arrays(group, direction, changed[group], masks)
        return DataSet(
            changed["features"],
            changed["labels"],
            features_masks=dataset.features_masks,
            labels_masks=dataset.labels_masks,
            weights=dataset.weights,
        )

    def _arrays(
        self,
        group: Group,
        direction: Direction,
        arrays: Mapping[str, Array],
        masks: Mapping[str, Array],
    ) -> dict[str, Array]:
        steps = self._scales()
        found = dict(arrays)
        for step in steps if direction == "apply" else reversed(steps):
            found = step.mapped(group, direction, found, masks)
        return found
