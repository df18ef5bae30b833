"""The files in `static/`, read through importlib so that they also come out of a zip."""

from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """The text of `static/NAME`."""
    return files("sparkwright_widgets").joinpath("static", name).read_text(encoding="utf-8")


@cache
def joined_module(*names: str) -> str:
    """Several ES modules of `static/` as one: a widget's front end is a single text.

    The files import each other on single lines (`import { … } from "./NAME";`), which is what a
    browser, Node and this function understand; there is no build step.
    """
    lines = (line for name in names for line in asset(name).splitlines())
    return "\n".join(line for line in lines if not (line.startswith("import ") and '"./' in line))
