"""Packages that import their public names at first use.

An eager `__init__` makes each process pay for all modules of a package of which it needs one:
four times the time and half as much memory again at the start of a Spark task. `lazy_loader`
(PyPI) does the same with stub files, which it cannot read from the archive that executors receive.
"""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of `package`, a module that is being imported."""
    namespace = vars(sys.modules[package])

    @cache
    def modules() -> dict[str, str]:
        # For type checkers, these imports are within `if TYPE_CHECKING:`.
        return modules_of(ast.parse(namespace["__loader__"].get_source(package)), package)

    def get(name: str) -> Any:
        known = {} if name.startswith("__") else modules()
        module, own = known.get(name), f"{package}.{name}"
        if module is None and own not in known.values():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module in (None, own):
            return import_module(own)
        found = namespace[name] = getattr(import_module(module), name)
        return found

    def list_names() -> list[str]:
        return sorted({*(name for name in namespace if name.startswith("__")), *modules()})

    return get, list_names


def modules_of(tree: ast.Module, package: str) -> dict[str, str]:
    """Return the module of each public name that `package` imports; a module is its own."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                name = alias.asname or alias.name
                if module.startswith("sparkwright") and not name.startswith("_"):
                    found[name] = module if node.module else f"{package}.{name}"
    return found
