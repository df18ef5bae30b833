"""A network from Keras code, which is read and never executed."""

import ast
import re
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from ._call_reading import kind_of, layer_options
from ._calls import Call
from ._chains import names_before, with_inputs_in_order
from ._code_training import CompiledCode, read_training
from ._code_values import CodeValues
from ._code_writing import OFF, TASK
from ._names import free_name, snake_case
from ._network_spec import TASKS, LayerSpec, NetworkSpec, Task
from ._shapes import Misfit

_LARGEST = 1_000_000  # characters
_LONGEST_CALL = 100  # lines
_CALL = re.compile(r"(?:\w+ *= *)?[A-Za-z_][\w.]*\(", re.ASCII)
_SHAPES = ("input_shape", "input_dim", "batch_input_shape")
_SHOWN_ONLY = ("summary", "count_params", "get_config")


def from_code(text: str) -> NetworkSpec:
    """The network that Keras code makes.

    The code may be a Sequential model or a functional one, compiled or not, with other names,
    orders of arguments and line breaks than `to_code` writes. Seeds are not read one by one: they
    count up from the first.

    Args:
        text: the code.

    Raises:
        ConfigurationError: naming the line that cannot be read.

    Example:
        >>> spec = from_code('''
        ... import keras
        ... model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units=3)])
        ... model.compile("sgd", loss="mse")
        ... ''')
        >>> [layer.name for layer in spec.layers], spec.optimizer.kind
        (['input', 'dense'], 'SGD')
    """
    if len(text) > _LARGEST:
        raise ConfigurationError(
            f"code must have at most {_LARGEST:,} characters. Received: {len(text):,} characters."
        )
    lines = text.replace("\r\n", "\n").split("\n")
    off = _switched_off(lines)
    for number in off:
        lines[number - 1] = lines[number - 1].replace(OFF, "", 1)
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError as error:
        raise _refused(error.lineno or 1, lines, f"{error.msg}.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigurationError(f"the text is not Python code: {error}.") from error
    reader = _Reader(off)
    for statement in tree.body:
        try:
            reader.take(statement)
        except (Misfit, RecursionError) as misfit:
            raise _refused(reader.line or statement.lineno, lines, str(misfit)) from misfit
    return reader.network(_task(text))


def _switched_off(lines: list[str]) -> set[int]:
    """Numbers of the lines (from 1) that hold layers that are switched off, not just a comment."""
    found: set[int] = set()
    row = 0
    while row < len(lines):
        last = row
        if _CALL.match(_without_mark(lines[row])):
            last = _end_of_call(lines, row)
            found.update(range(row + 1, last + 1))
        row = max(last, row + 1)
    return found


def _end_of_call(lines: list[str], first: int) -> int:
    """The row after the call that begins in the commented row `first`; `first` itself: none."""
    text = ""
    for row in range(first, min(first + _LONGEST_CALL, len(lines))):
        line = lines[row].lstrip(" ")
        if not line.startswith(OFF):
            break
        text += line.removeprefix(OFF) + "\n"
        try:
            ast.parse(text.lstrip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            if row == first and not line.rstrip().endswith(("(", "[", ",")):
                break  # words, not a call that goes on
            continue
        return row + 1
    return first


def _without_mark(line: str) -> str:
    line = line.lstrip(" ")
    return line.removeprefix(OFF) if line.startswith(OFF) else ""


def _refused(number: int, lines: list[str], why: str) -> ConfigurationError:
    line = lines[min(number, len(lines)) - 1].strip()
    return ConfigurationError(
        f"line {number} of the code cannot be read: {why} Received: {line[:120]!r}. "
        "Use a Sequential or functional model of Keras' layers."
    )


def _task(text: str) -> Task | None:
    found = re.search(rf"^{re.escape(TASK)}(\w+)\s*$", text, flags=re.MULTILINE)
    return next((task for task in TASKS if found and task == found[1]), None)


@dataclass(slots=True)
class _Read:
    """One layer, as far as it is read."""

    call: Call
    inputs: tuple[int, ...]
    enabled: bool
    name: str


class _Reader:
    def __init__(self, off: set[int]) -> None:
        self.line = 0
        self._off = off
        self._values = CodeValues()
        self._layers: list[_Read] = []
        self._tensors: dict[str, int] = {}
        self._models: set[str] = set()
        self._inputs: list[int] = []
        self._ends: list[int] | None = None
        self._name = "network"
        self._chain = False
        self._compiled = CompiledCode()
        self._seed: int | None = None

    def take(self, statement: ast.stmt) -> None:
        """Read one statement."""
        self.line = 0
        match statement:
            case ast.Import() | ast.ImportFrom():
                self._values.take_import(statement)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value)
            case ast.Expr(value=ast.Constant() | ast.Name()):
                pass
            case _ if statement.lineno in self._off and not self._makes_layers(statement):
                pass  # other code that somebody has switched off
            case ast.Expr(value=ast.Call() as call):
                self._called(call)
            case _:
                raise Misfit("only imports, assignments and calls can be read here.")

    def _makes_layers(self, statement: ast.stmt) -> bool:
        return any(
            isinstance(node, ast.Call) and _makes_layer(self._values.place(node.func) or "")
            for node in ast.walk(statement)
        )

    def network(self, task: Task | None) -> NetworkSpec:
        """The network of all that has been read."""
        if not self._layers:
            raise ConfigurationError(
                "the code must make a Keras model. Received: no layers. "
                "Paste the lines from `keras.Input` on."
            )
        layers = tuple(
            LayerSpec(
                kind=kind_of(read.call).name,
                name=read.name,
                options=layer_options(read.call),
                inputs=tuple(self._layers[source].name for source in read.inputs),
                enabled=read.enabled,
            )
            for read in self._layers
        )
        ends = self._ends
        if ends is None:
            ends = [row for row, layer in enumerate(layers) if layer.enabled][-1:]
        names = [layers[row].name for row in ends]
        layers = with_inputs_in_order(layers, [layers[row].name for row in self._inputs])
        before = names_before(layers)
        implied = tuple(
            LayerSpec(
                kind=layer.kind,
                name=layer.name,
                options=layer.options,
                inputs=() if list(layer.inputs) == before[row] else layer.inputs,
                enabled=layer.enabled,
            )
            for row, layer in enumerate(layers)
        )
        found_task, outputs, optimizer = read_training(self._compiled, layers, names, task)
        return NetworkSpec(
            layers=implied,
            outputs=outputs,
            optimizer=optimizer,
            name=self._name,
            task=found_task,
            seed=self._seed if self._seed is not None else _least_seed(self._layers),
        )

    def _assign(self, name: str, node: ast.expr) -> None:
        if isinstance(node, ast.Name) and node.id in self._tensors:
            mine = self._tensors.get(name)
            # After a layer that is switched off, its name goes on as what it takes.
            if mine is None or self._layers[mine].enabled:
                self._tensors[name] = self._tensors[node.id]
            return
        if isinstance(node, ast.Call):
            place = self._values.place(node.func)
            if place in ("Sequential", "Model"):
                if self._models:
                    raise Misfit("this is a second model. Paste the code of one model alone.")
                self._models.add(name)
                self._model(place, node)
                return
            if isinstance(node.func, ast.Call) or (place is not None and _makes_layer(place)):
                self._tensors[name] = self._tensor(node)
                return
        value = self._values.value(node)
        if name.lower() == "seed" and isinstance(value, int):
            self._seed = value
        self._values.constants[name] = value

    def _model(self, place: str, node: ast.Call) -> None:
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        names = ("layers", "name") if place == "Sequential" else ("inputs", "outputs", "name")
        if len(node.args) > len(names) or not set(given) <= set(names):
            raise Misfit(f"`{place}` can be read here only with {', '.join(names)}.")
        given |= dict(zip(names, node.args, strict=False))
        if "name" in given:
            self._name = str(self._values.value(given["name"]))
        if place == "Sequential":
            self._chain = True
            for item in _items(given["layers"]) if "layers" in given else []:
                self._add(item)
        else:
            if "inputs" not in given or "outputs" not in given:
                raise Misfit("`Model` needs inputs and outputs.")
            self._inputs = [self._tensor(item) for item in _items(given["inputs"])]
            if any(self._layers[row].call.function != "Input" for row in self._inputs):
                raise Misfit("`Model` can be read here only with Inputs as its inputs.")
            if len(set(self._inputs)) < len(self._inputs):
                raise Misfit("`Model` is given an input twice.")
            self._ends = [self._tensor(item) for item in _items(given["outputs"])]

    def _called(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr=method) if name in self._models:
                if method == "compile":
                    self._compiled.take(self._values, node)
                elif method == "add" and self._chain and len(node.args) == 1:
                    self._add(node.args[0])
                elif method not in _SHOWN_ONLY:
                    raise Misfit(f"`{name}.{method}` cannot be read here.")
            case _:
                place = self._values.place(node.func)
                if place == "utils.set_random_seed":
                    value = self._values.value(node.args[0]) if node.args else None
                    self._seed = value if isinstance(value, int) else None
                elif place != "backend.clear_session":
                    raise Misfit(f"`{ast.unparse(node.func)[:60]}` cannot be read here.")

    def _add(self, node: ast.expr) -> None:
        """A layer of a Sequential model."""
        self.line = node.lineno
        if not isinstance(node, ast.Call):
            raise Misfit("only calls of layers can be read here.")
        before = [row for row, read in enumerate(self._layers) if read.enabled][-1:]
        call = self._values.call(node)
        shapes = [name for name, _ in call.arguments if name in _SHAPES]
        if shapes and not self._layers:
            call, made = _apart(call)
            before = [self._put(made, (), node)]
        self._put(call, () if call.function == "Input" else tuple(before), node)

    def _tensor(self, node: ast.expr) -> int:
        """The row of the layer whose output `node` is."""
        if isinstance(node, ast.Name) and node.id in self._tensors:
            return self._tensors[node.id]
        if not isinstance(node, ast.Call):
            raise Misfit(f"`{ast.unparse(node)[:60]}` is not the output of a layer.")
        if not isinstance(node.func, ast.Call):
            call = self._values.call(node)
            if call.function != "Input" and node.lineno not in self._off:
                raise Misfit("the layer is not given what it takes.")
            return self._put(call, (), node)
        call = self._values.call(node.func)
        separately = kind_of(call).separately
        names = [None] * len(node.args) + [keyword.arg for keyword in node.keywords]
        if not separately and (len(node.args) != 1 or node.keywords):
            raise Misfit("a layer takes one output, or a list of outputs, here.")
        if names[:1] != [None] or any(name not in (None, "value", "key") for name in names):
            raise Misfit("a layer is called here only with query, value and key.")
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        sources = [self._tensor(item) for outer in given for item in _items(outer)]
        if separately and names == [None, None] and sources[0] == sources[-1]:
            sources = sources[:1]
        return self._put(call, tuple(sources), node)

    def _put(self, call: Call, sources: tuple[int, ...], node: ast.expr) -> int:
        self.line = node.lineno
        kind = kind_of(call)
        if shapes := [name for name, _ in call.arguments if name in _SHAPES]:
            raise Misfit(
                f"`{shapes[0]}` is read only in the first layer of a Sequential model. "
                "Leave it out, and begin with a `keras.Input` of that shape."
            )
        layer_options(call)  # complains while the line is known
        name = dict(call.arguments).get("name")
        taken = [read.name for read in self._layers]
        if name in taken:
            raise Misfit(f"the name {name!r} is given to two layers.")
        self._layers.append(
            _Read(
                call=call,
                inputs=sources,
                enabled=node.lineno not in self._off,
                name=name if isinstance(name, str) and name else _free(kind.name, taken),
            )
        )
        return len(self._layers) - 1


def _free(kind: str, taken: list[str]) -> str:
    return free_name(snake_case(kind), taken)


def _apart(call: Call) -> tuple[Call, Call]:
    """The first layer of a Sequential model, and the Input of the shape that it is given."""
    given = dict(call.arguments)
    name = next(name for name in _SHAPES if name in given)
    shape = (given[name],) if name == "input_dim" else given[name]
    if not isinstance(shape, tuple | list):
        raise Misfit(f"`{name}` must be a tuple of lengths, such as (28, 28, 1).")
    if name == "batch_input_shape":
        shape = shape[1:]
    rest = tuple((key, value) for key, value in call.arguments if key not in _SHAPES)
    return Call(call.function, rest), Call("Input", (("shape", tuple(shape)),))


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else [node]


def _makes_layer(place: str) -> bool:
    return place == "Input" or place.startswith("layers.")


def _least_seed(layers: list[_Read]) -> int | None:
    return min((seed for read in layers for seed in _seeds(read.call)), default=None)


def _seeds(value: Any) -> list[int]:
    if not isinstance(value, Call):
        return []
    found = [seed for _, inner in value.arguments for seed in _seeds(inner)]
    given = dict(value.arguments).get("seed")
    return [*found, *([given] if isinstance(given, int) else [])]
