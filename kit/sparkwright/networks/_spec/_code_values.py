"""Expressions of Python code as values, read and never executed."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from ._calls import Call
from ._json_values import LARGEST
from ._shapes import Misfit

_MOST_VALUES = 10_000

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_SHORTER = {
    "models.Sequential": "Sequential",
    "models.Model": "Model",
    "layers.Input": "Input",
}


class CodeValues:
    """What names mean at a point of the code.

    Attributes:
        places: names of what is in Keras, such as {"layers": "layers", "keras": ""}.
        constants: names of numbers, text, tuples and lists.
    """

    def __init__(self) -> None:
        self.places: dict[str, str] = {}
        self.constants: dict[str, Any] = {}

    def take_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Remember what an import of Keras brings; others bring nothing that can be used."""
        for alias in node.names:
            if isinstance(node, ast.Import):
                first = alias.name.partition(".")[0]
                path = alias.name if alias.asname else first
                name = alias.asname or first
            else:
                path = f"{node.module or ''}.{alias.name}"
                name = alias.asname or alias.name
            place = _in_keras(path)
            if place is not None:
                self.places[name] = place

    def place(self, node: ast.expr) -> str | None:
        """Where in Keras a name or attribute leads; None: nowhere."""
        if isinstance(node, ast.Name):
            return self.places.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        before = self.place(node.value)
        if before is None:
            return None
        if before == "tensorflow":
            return "" if node.attr == "keras" else None
        found = f"{before}.{node.attr}" if before else node.attr
        return _SHORTER.get(found, found)

    def value(self, node: ast.expr) -> Any:
        """A constant, a tuple, list or dict of values, or a call of Keras.

        Raises:
            Misfit: if it is anything else.
        """
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return _bounded(value)
            case ast.Tuple(elts=items):
                return _bounded(tuple(map(self.value, items)))
            case ast.List(elts=items):
                return _bounded(list(map(self.value, items)))
            case ast.Dict(keys=keys, values=values):
                return self._mapping(keys, values)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
                return self._calculated(_OPERATORS[type(op)], left, right)
            case ast.Name(id=name) if name in self.constants:
                return self.constants[name]
            case ast.Call():
                return self.call(node)
            case _:
                place = self.place(node)
                if not place:
                    raise Misfit(f"`{ast.unparse(node)[:60]}` is not known here.")
                return Call(place)

    def call(self, node: ast.Call) -> Call:
        """A call of something in Keras, with its arguments.

        Raises:
            Misfit: if it is a call of something else.
        """
        place = self.place(node.func)
        if not place:
            raise Misfit(f"`{ast.unparse(node.func)[:60]}` is not known here.")
        arguments = [("", self.value(inner)) for inner in node.args]
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Misfit("`**` cannot be read here.")
            arguments.append((keyword.arg, self.value(keyword.value)))
        return _bounded(Call(place, tuple(arguments)))

    def _mapping(self, keys: list[ast.expr | None], values: list[ast.expr]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise Misfit("the keys of a dict must be text here.")
            found[key.value] = self.value(value)
        return _bounded(found)

    def _number(self, node: ast.expr) -> Any:
        value = self.value(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Misfit(f"`{ast.unparse(node)[:60]}` is not a number.")
        return value

    def _calculated(self, operate: Any, left: ast.expr, right: ast.expr) -> Any:
        try:
            return _bounded(operate(self._number(left), self._number(right)))
        except (ZeroDivisionError, OverflowError) as error:
            raise Misfit(f"{error}.") from error


def _bounded(value: Any) -> Any:
    """`value`, unless it would grow without end where it is used again and again.

    Raises:
        Misfit: if an integer has more than 64 bits, or there are too many values in it.
    """
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise Misfit("integers must be less than 2**63.")
    waiting, count = [value], 0
    while waiting:
        inner = waiting.pop()
        count += 1
        if count > _MOST_VALUES:
            raise Misfit(f"a value may hold at most {_MOST_VALUES:,} others.")
        if isinstance(inner, list | tuple):
            waiting.extend(inner)
        elif isinstance(inner, dict):
            waiting.extend(inner.values())
        elif isinstance(inner, Call):
            waiting.extend(each for _, each in inner.arguments)
    return value


def _in_keras(path: str) -> str | None:
    """Where in Keras a path of imports leads: "" for Keras itself; None: elsewhere."""
    path = path.removeprefix("tensorflow.") if path.startswith("tensorflow.keras") else path
    if path in ("keras", "tensorflow"):
        return "" if path == "keras" else path
    if not path.startswith("keras."):
        return None
    found = path.removeprefix("keras.")
    return _SHORTER.get(found, found)
