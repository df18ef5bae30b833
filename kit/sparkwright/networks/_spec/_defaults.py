"""Options that say nothing because they equal the defaults."""

from collections.abc import Collection, Mapping
from typing import Any


def without_defaults(
    options: Mapping[str, Any], defaults: Mapping[str, Any], *, keep: Collection[str] = ()
) -> dict[str, Any]:
    """The options without those that equal their defaults.

    Args:
        options: as given.
        defaults: by name.
        keep: names of those that stay.

    Example:
        >>> without_defaults({"units": 3, "use_bias": True}, {"units": 3, "use_bias": True},
        ...                  keep=("units",))
        {'units': 3}
    """
    return {
        name: value
        for name, value in options.items()
        if name in keep
        or name not in defaults
        or value != defaults[name]
        # 1 is not True: it has to be said that it is wrong.
        or isinstance(value, bool) != isinstance(defaults[name], bool)
    }
