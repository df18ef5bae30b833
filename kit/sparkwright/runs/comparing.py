"""The settings in which runs differ."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Names in a run's `configuration` that are not settings: environment, counts and copies.
NO_SETTINGS = frozenset(
    {
        *("environment", "java", "revision", "spark_master", "spark_settings", "spark_parallelism"),
        *("partitions", "data", "master.seed", "note"),
        "model",  # its name; Keras numbers default names
    }
)
# Words in the names of settings that are locations, not training options.
_PLACES = ("path", "url", "directory", "folder", "port", "host", "address", "id", "bind")
# Placeholder for a setting that a run does not have.
MISSING = "—"


def differing(
    settings: Sequence[Mapping[str, Any]], *, matters: bool = False
) -> dict[str, list[Any]]:
    """Return the settings that differ between runs, by dotted names.

    Args:
        settings: one mapping per run, such as its `configuration`; nested mappings are flattened.
        matters: leave out settings that do not affect training: environment, data, paths, ports
            and, unless it is the only difference, the seed. Default False.

    Returns:
        Name -> the value of each run, "—" where it is missing. Numbers that agree in six digits are
        equal.

    Example:
        >>> runs = [{"epochs": 5, "master": {"batch": 32}, "seed": 1}, {"epochs": 5, "seed": 2}]
        >>> differing(runs)
        {'master.batch': [32, '—'], 'seed': [1, 2]}
        >>> differing(runs, matters=True)
        {'master.batch': [32, '—']}
    """
    flat = [flat_settings(each) for each in settings]
    found: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for each in flat for name in each):
        values = [each.get(name, MISSING) for each in flat]
        if not (matters and _is_location(name)) and not all(_same(values[0], v) for v in values):
            found[name] = values
    if matters and len(found) > 1:
        found.pop("seed", None)
    return found


def _is_location(name: str) -> bool:
    parts = name.split(".")
    words = parts[-1].lower().split("_")
    return parts[0] in NO_SETTINGS or name in NO_SETTINGS or any(w in _PLACES for w in words)


def flat_settings(value: Any, path: str = "") -> dict[str, Any]:
    """Flatten a nested mapping to dotted names."""
    if not isinstance(value, Mapping) or not value:
        return {path: value}
    found: dict[str, Any] = {}
    for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
        found |= flat_settings(inner, f"{path}.{name}" if path else str(name))
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and one == other
