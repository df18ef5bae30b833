"""The shapes that examples must have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from ._manifest import Manifest
from ._skipped import ValidationResult
from .dataset import DataSet

Shape = Sequence[int | None]
Shapes = Shape | Mapping[str, Shape]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """Required shapes of every item: name ("" if there is only one) -> shape; None: not checked."""

    features: dict[str, tuple[int, ...]] | None = None
    labels: dict[str, tuple[int, ...]] | None = None
    labels_required: bool = True

    def completed(self, manifest: Manifest) -> "Expected":
        """Return a copy in which the manifest's values replace missing ones."""
        shapes: dict[str, dict[str, tuple[int, ...]]] = {"features": {}, "labels": {}}
        for column, (_, shape) in manifest.columns.items():
            group, _, name = column.partition("/")
            if group in shapes:
                shapes[group][name] = shape
        return Expected(
            features=self.features or shapes["features"],
            labels=self.labels or shapes["labels"],
            labels_required=self.labels_required and bool(shapes["labels"]),
        )

    def check(self, dataset: DataSet, name: str, items: int) -> ValidationResult:
        """Validate `dataset`; a problem counts as `items` invalid items."""
        found = self._problem(dataset)
        if found is None:
            return ValidationResult(total=items, valid=items)
        reason, message = found
        return ValidationResult(total=items, **{reason: items}, first=(f"{name}: {message}",))

    def _problem(self, dataset: DataSet) -> tuple[str, str] | None:
        groups = (
            ("features", dataset.features, self.features or {}),
            ("labels", dataset.labels, self.labels or {}),
        )
        for group, arrays, shapes in groups:
            if not arrays and (shapes or self.labels_required):
                return f"missing_{group}", f"it has no {group}"
            missing = sorted(set(shapes) - set(arrays))
            if arrays and missing and "" not in shapes:
                names = sorted(arrays)
                return f"missing_{group}", f"it has the {group} {names}, not {missing}"
        for group, arrays, shapes in groups:
            for name, array in arrays.items():
                wanted, found = shapes.get(name, shapes.get("")), array.shape[1:]
                if wanted is not None and not _fits(found, wanted):
                    message = f"{group} {name!r} have the shape {_text(found)}, not {_text(wanted)}"
                    return f"invalid_{group}", message
        return None


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(shape) == len(wanted) and all(
        length in (-1, found) for found, length in zip(shape, wanted, strict=True)
    )


def _text(shape: Sequence[int]) -> str:
    return "(" + ", ".join("any" if n == -1 else str(n) for n in shape) + ")"


def expected_shapes(option: str, shapes: Any) -> dict[str, tuple[int, ...]] | None:
    if shapes is None:
        return None
    named: Any = shapes if isinstance(shapes, Mapping) else {"": shapes}
    try:
        found = {
            str(name): tuple(-1 if n is None else int(n) for n in shape)
            for name, shape in named.items()
        }
    except (TypeError, ValueError):
        found = {"": (0,)}
    if any(n == 0 or n < -1 for shape in found.values() for n in shape):
        raise ConfigurationError(
            f"`{option}` must be a shape of one example: lengths of at least 1, None or -1 for any "
            f"length; or a dict name -> shape. Received: {option}={shapes!r}."
        )
    return found
