"""Immutable specification of a network: layers, connections, outputs, optimizer; as code."""

import json
import keyword
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sparkwright._yaml import write_yaml
from sparkwright.configuration import configuration
from sparkwright.errors import ConfigurationError
from sparkwright.python_code import Expression, call_to_code, to_code

from ._calls import (
    METRICS_MODULE,
    REGISTERED,
    Call,
    compile_arguments,
    fold,
    is_function,
    keras_text,
    known_kind,
    layer_call,
    make,
    seeded,
    taking,
)
from ._parts import (
    AbstractNetworkSpec,
    LayerSpec as LayerSpec,
    OptimizerSpec as OptimizerSpec,
    OutputSpec as OutputSpec,
)
from ._rows import NetworkAnalysis
from ._wiring import free_name
from .analysis import analyze

_OFF = "# off: "
_WIDTH = 88
_STEP = "    "
_IMPORTED = {"constraints", "initializers", "layers", "regularizers"}
_RESERVED = {"keras", METRICS_MODULE, *_IMPORTED}


@configuration
class NetworkSpec(AbstractNetworkSpec):
    """Complete specification of a network; `build()` returns the compiled model.

    A spec may be invalid while it is edited: `spec.analysis` lists its problems.

    Raises:
        ConfigurationError: if a field has the wrong type.

    Example:
        >>> spec = NetworkSpec(
        ...     layers=(
        ...         LayerSpec(kind="Input", name="features", options={"shape": [4]}),
        ...         LayerSpec(kind="Dense", name="out", options={"units": 3}),
        ...     ),
        ...     outputs=(OutputSpec(layer="out", loss="mse"),),
        ...     task="regression",
        ... )
        >>> NetworkSpec.from_dict(spec.to_dict()) == spec
        True
        >>> spec.analysis.ok, spec.analysis.parameters
        (True, 15)
    """

    @property
    def analysis(self) -> NetworkAnalysis:
        """Shapes, parameter counts and problems; computed once. Imports Keras."""
        if self._analysis is None:
            object.__setattr__(self, "_analysis", analyze(self))
        assert self._analysis is not None
        return self._analysis

    def build(self) -> Any:
        """Return a compiled `keras.Model`: Sequential for a chain, functional otherwise.

        Raises:
            ConfigurationError: if the network has a problem, or Keras raises an error.
        """
        if self.analysis.reason is not None:
            raise ConfigurationError(f"the network cannot be built. {self.analysis.reason}")
        try:
            with seeded(self.seed):
                return _compiled(self)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(
                f"Keras cannot build the network {self.name!r}: {keras_text(error)}"
            ) from error

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the network as JSON; `from_json` is the inverse."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_yaml(self) -> str:
        """Return the network as YAML, flat lists on one line; `from_yaml` is the inverse."""
        return write_yaml(self.to_dict(), short=True)

    def to_code(
        self, variable: str = "model", *, reserved: Collection[str] = (), seed: str | None = None
    ) -> str:
        """Return Keras code that builds the compiled model.

        Args:
            variable: name of the model's variable; default "model".
            reserved: names used by the surrounding code, which layer variables must not have.
            seed: variable of the surrounding code that holds the seed; default None: write the
                network's own seed.

        Raises:
            ConfigurationError: if the network has a problem, or `variable` is not a valid name.
        """
        return _network_code(self, variable, reserved=reserved, seed=seed)


def _compiled(spec: AbstractNetworkSpec) -> Any:
    import keras

    if _is_sequential(spec):
        layers = [make(layer_call(layer)) for layer in spec.layers if layer.enabled]
        model = keras.Sequential(layers, name=spec.name)
    else:
        made: dict[str, Any] = {}
        for layer, row in zip(spec.layers, spec.analysis.rows, strict=True):
            if layer.enabled:
                found = make(layer_call(layer))
                taken = taking(known_kind(row.kind), [made[name] for name in row.inputs])
                made[layer.name] = found(*taken) if taken else found
        inputs = [made[x.name] for x in spec.layers if x.enabled and x.kind == "Input"]
        outputs = [made[output.layer] for output in spec.outputs]
        model = keras.Model(_only(inputs), _only(outputs), name=spec.name)
    model.compile(**make(compile_arguments(spec.optimizer, spec.outputs)))
    return model


def _is_sequential(spec: AbstractNetworkSpec) -> bool:
    """Whether the model is a Sequential: a chain whose last layer is the only output."""
    rows = [row for row in spec.analysis.rows if row.enabled]
    twice = any(known_kind(row.kind).separately for row in rows)  # called on its input twice
    is_end = [output.layer for output in spec.outputs] == [row.name for row in rows[-1:]]
    return spec.analysis.is_chain and is_end and not twice


def _only(values: list[Any]) -> Any:
    """The only item of the list, or the list."""
    return values[0] if len(values) == 1 else values


def _network_code(
    spec: AbstractNetworkSpec,
    variable: str = "model",
    *,
    reserved: Collection[str] = (),
    seed: str | None = None,
) -> str:
    """See `NetworkSpec.to_code`."""
    if not variable.isidentifier() or keyword.iskeyword(variable) or variable in _RESERVED:
        raise ConfigurationError(
            "`variable` must be a Python identifier that the generated code does not use. "
            f"Received: variable={variable!r}. Choose another name."
        )
    if spec.analysis.reason is not None:
        raise ConfigurationError(f"the network cannot be written as code. {spec.analysis.reason}")
    calls = [layer_call(layer) for layer in spec.layers]
    places = {name.partition(".")[0] for call in calls for name in _functions(call)}
    parts = ", ".join(sorted(places & _IMPORTED))
    lines = ["import keras", *([f"from keras import {parts}"] if parts else [])]
    compiled = [*compile_arguments(spec.optimizer, spec.outputs).items()]
    if any(name.startswith(METRICS_MODULE) for _, value in compiled for name in _functions(value)):
        lines.append(f"from sparkwright.networks import metrics as {METRICS_MODULE}")
    lines += ["", f"# Task: {spec.task}"]
    if spec.seed is not None:
        lines.append(f"keras.utils.set_random_seed({spec.seed if seed is None else seed})")
    lines.append("")
    if _is_sequential(spec):
        lines += [f"{variable} = keras.Sequential(", f"{_STEP}["]
        for layer, call in zip(spec.layers, calls, strict=True):
            lines += _printed("", call, ",", _STEP * 2, off=not layer.enabled)
        lines += [f"{_STEP}],", f"{_STEP}name={to_code(spec.name)},", ")"]
    else:
        lines += _graph(spec, calls, variable, reserved)
    lines += [f"{variable}.compile(", *_arguments(compiled, ""), ")"]
    return "\n".join(lines) + "\n"


def _functions(value: Any) -> Iterator[str]:
    import keras

    for call in keras.tree.flatten(value):
        if isinstance(call, Call):
            yield call.function
            yield from _functions([inner for _, inner in call.arguments])


def _graph(
    spec: AbstractNetworkSpec, calls: Sequence[Call], variable: str, reserved: Collection[str]
) -> Iterator[str]:
    variables = _variables(spec, {variable, *_RESERVED, *reserved})
    for row, call in zip(spec.analysis.rows, calls, strict=True):
        sources = [variables[name] for name in row.inputs]
        taken = to_code(taking(known_kind(row.kind), sources))[1:-1]
        after = f"({taken})" if sources else ""
        yield from _printed(f"{variables[row.name]} = ", call, after, off=not row.enabled)
    inputs = [variables[x.name] for x in spec.layers if x.enabled and x.kind == "Input"]
    outputs = [variables[output.layer] for output in spec.outputs]
    yield call_to_code(f"{variable} = keras.Model", _only(inputs), _only(outputs), name=spec.name)


def _variables(spec: AbstractNetworkSpec, reserved: Collection[str]) -> dict[str, Expression]:
    taken = set(reserved)
    found: dict[str, Expression] = {}
    for layer in spec.layers:
        stem = re.sub(r"\W", "_", layer.name, flags=re.ASCII)
        stem = f"layer_{stem}" if stem[:1].isdigit() else stem
        stem = f"{stem}_layer" if keyword.iskeyword(stem) or stem in reserved else stem
        found[layer.name] = Expression(free_name(stem, taken))
        taken.add(found[layer.name])
    return found


def _printed(
    before: str, value: Any, after: str, indent: str = "", *, off: bool = False
) -> Iterator[str]:
    """Yield the lines of a value; a call too long for one line has one line per argument."""
    start = f"{indent}{_OFF if off else ''}"
    line = f"{start}{before}{to_code(fold(value, _written))}{after}"
    if len(line) <= _WIDTH or not isinstance(value, Call):
        yield line
        return
    yield f"{start}{before}{_place(value.function)}("
    yield from _arguments(value.arguments, start)
    yield f"{start}){after}"


def _arguments(arguments: Sequence[tuple[str, Any]], indent: str) -> Iterator[str]:
    for name, value in arguments:
        yield from _printed(f"{name}=" if name else "", value, ",", indent + _STEP)


def _written(call: Call, *arguments: Any, **named: Any) -> Expression:
    parts = [*map(to_code, arguments), *(f"{name}={to_code(x)}" for name, x in named.items())]
    place = _place(call.function)
    return Expression(place if is_function(call) else f"{place}({', '.join(parts)})")


def _place(function: str) -> str:
    if function.startswith(REGISTERED):
        return f"keras.saving.get_registered_object({to_code(function.removeprefix(REGISTERED))})"
    return (
        function
        if function.partition(".")[0] in {METRICS_MODULE, *_IMPORTED}
        else f"keras.{function}"
    )
