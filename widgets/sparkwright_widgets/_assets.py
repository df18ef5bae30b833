"""Read the files in `static/`, through importlib so that a zipped package works."""

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """The text of `static/NAME`."""
    return files("sparkwright_widgets").joinpath("static", name).read_text(encoding="utf-8")


@cache
def joined_module(*names: str) -> str:
    """Join ES modules of `static/`, which must import each other on single lines."""
    lines = (line for name in names for line in asset(name).splitlines())
    return "\n".join(line for line in lines if not (line.startswith("import ") and '"./' in line))
