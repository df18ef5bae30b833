"""Read the files in `static/`, through importlib so that a zipped package works."""

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """The text of `static/NAME`."""
    return files("sparkwright_widgets").joinpath("static", name).read_text(encoding="utf-8")


@cache
def joined_module(*names: str) -> str:
    """Join several ES modules of `static/`, because a widget's front end is a single module.

    The files must import each other on single lines (`import { … } from "./NAME";`). There is no
    build step.
    """
    lines = (line for name in names for line in asset(name).splitlines())
    return "\n".join(line for line in lines if not (line.startswith("import ") and '"./' in line))
