"""Settings as the Python that makes them."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any


def settings_to_code(
    settings: Any, *, prefix: str = "sw.", named: Mapping[str, str] | None = None
) -> str:
    """The expression that makes `settings`, with only what differs from the defaults.

    Args:
        settings: a training master, EarlyStopping, MeshConfig or the like: a dataclass of plain
            values and of others like it. Hooks are left out: they are code of their own.
        prefix: stands before names of classes; default "sw.".
        named: option -> Python source that stands in place of its value, such as a name; such an
            option is written in any case. Default None: none.

    Example:
        >>> from sparkwright.masters import MeshConfig, ParameterAveragingTrainingMaster
        >>> mesh = MeshConfig(ports=50000)
        >>> settings_to_code(ParameterAveragingTrainingMaster(mesh=mesh, seed=1))
        'sw.ParameterAveragingTrainingMaster(seed=1, mesh=sw.MeshConfig(ports=50000))'
    """
    if not is_dataclass(settings):
        return repr(_plain(settings))
    named = named or {}
    given = (
        f"{field.name}="
        + (named.get(field.name) or settings_to_code(getattr(settings, field.name), prefix=prefix))
        for field in fields(settings)
        if field.name in named
        or (field.name != "hooks" and getattr(settings, field.name) != _default(field))
    )
    return f"{prefix}{type(settings).__name__}({', '.join(given)})"


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _plain(value: Any) -> Any:
    """The value with Python's own floats: those of NumPy write themselves with NumPy's name."""
    if isinstance(value, float):
        return float(value)
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(inner) for key, inner in value.items()}
    return value
