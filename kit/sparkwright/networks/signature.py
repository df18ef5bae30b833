"""Names, shapes and dtypes of the inputs and outputs of any model, also a subclassed one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from sparkwright.errors import ConfigurationError

Form = Literal["bare", "list", "dict"]
Shape = tuple[int | None, ...]
# (dtype, shape of one example); None stands for any length.
Spec = tuple[str, Shape]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """Names, dtypes and shapes of the data that a subclassed model was built from."""

    form: Form  # structure of the features in `call`: one array, a list, or a dict by name
    # Flat name as in `DataSet.columns`, dtype, shape of one example.
    columns: tuple[tuple[str, str, Shape], ...]

    def group(self, name: str) -> dict[str, Spec]:
        """Name -> (dtype, shape), for the columns of the group "features" or "labels"."""
        begins = f"{name}/"
        return {
            column.removeprefix(begins): (dtype, shape)
            for column, dtype, shape in self.columns
            if column.startswith(begins)
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """Inputs and outputs of a model."""

    inputs: Mapping[str, Spec]  # by name
    # In the order of the flat outputs; empty if `call` cannot be traced.
    outputs: Mapping[str, Spec]
    input_form: Form
    output_form: Form  # of outputs and labels


_examples: "WeakKeyDictionary[Any, Example]" = WeakKeyDictionary()
_signatures: "WeakKeyDictionary[Any, Signature]" = WeakKeyDictionary()


def is_graph(model: Any) -> bool:
    """Whether the model is Sequential or functional, and built."""
    return bool(getattr(model, "inputs", None)) and bool(getattr(model, "outputs", None))


def signature_of(model: Any) -> Signature:
    """Return the inputs and outputs of `model`."""
    # Names of a subclassed model:
    # - One input: "features".
    # - A list of inputs: the names of the data it was built from, or "input_1", "input_2", ….
    # - A dict of inputs: its keys.
    # - One output: "output"; a list: "output_1", …; a dict: its keys, sorted.
    if is_graph(model):
        given = getattr(model, "_inputs_struct", None)
        inputs = {tensor.name: _spec(tensor) for tensor in model.inputs}
        outputs = graph_outputs(model)
        return Signature(
            inputs=inputs,
            outputs=outputs,
            input_form="dict" if isinstance(given, dict) else _form_for(inputs),
            output_form=_form_for(outputs),
        )
    found = _signatures.get(model)
    if found is None:
        example = example_of(model)
        outputs, form = _outputs(model, example)
        found = Signature(
            inputs=example.group("features"),
            outputs=outputs,
            input_form=example.form,
            output_form=form,
        )
        _signatures[model] = found
    return found


def output_names(model: Any) -> list[str]:
    """Return the names of the model's outputs; a Sequential model's is its last layer's name."""
    return list(output_types(model))


def rename_outputs(model: Any, names: Sequence[str]) -> bool:
    """Rename the outputs of a Sequential or functional model; return whether names changed."""
    if not (names and is_graph(model)) or output_names(model) == list(names):
        return False
    if hasattr(model, "output_names"):
        model.output_names = list(names)
    else:
        model.layers[-1].name = names[0]
    return True


def input_shapes(model: Any) -> dict[str, Shape]:
    """Input name -> shape of one example; None stands for any length."""
    return {name: shape for name, (_, shape) in signature_of(model).inputs.items()}


def output_types(model: Any) -> dict[str, Spec]:
    """Output name -> (dtype, shape of one example)."""
    outputs = dict(graph_outputs(model) or signature_of(model).outputs)
    if not outputs:
        raise ConfigurationError(
            "predictions and evaluations need a model whose `call` TensorFlow can trace. Received: "
            f"{model.name!r} ({type(model).__name__}), whose `call` cannot be traced. Give the "
            "class a `call`, or use one of its inner models."
        )
    return outputs


def graph_outputs(model: Any) -> dict[str, Spec]:
    """The outputs of a Sequential or functional model; empty for others."""
    tensors = getattr(model, "outputs", None) or []
    names = getattr(model, "output_names", None)
    if tensors and not names:  # a Sequential model has none
        names = [model.layers[-1].name]
    return dict(zip(names or [], map(_spec, tensors), strict=False))


def pack(form: Form, names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return the values in the structure `form`; None for no value."""
    if form == "dict":
        return dict(zip(names, values, strict=True)) or None
    return values[0] if len(values) == 1 and form == "bare" else list(values) or None


# -- subclassed models -------------------------------------------------------------------------


def example_of(model: Any) -> Example:
    """Return the input types recorded by Sparkwright or Keras when the model was built."""
    known = _examples.get(model)
    if known is None and (inputs := _known_inputs(model)) is not None:
        known = _example(inputs[0], inputs[1].items(), Example(form="bare", columns=()))
    if known is None:
        raise ConfigurationError(
            "the shapes of a subclassed model must be known. Received: "
            f"{model.name!r} ({type(model).__name__}), which was not called yet. Train it, or "
            "call it on data once: `model(features)`."
        )
    return known


def example_from(model: Any, columns: Mapping[str, Spec]) -> Example:
    """Return the input types to build `model` from, given the columns of the data."""
    # Known shapes are kept, with their open axes. A single array is passed to `call` as it is.
    # Several are passed as a dict by name if `call` accepts one, otherwise as a list.
    given = Example(form="bare", columns=tuple((name, *spec) for name, spec in columns.items()))
    features = given.group("features")
    known = _known_inputs(model)
    if known is not None:
        form, inputs = known
        names = list(features) if form == "list" and len(features) == len(inputs) else [*inputs]
        types = [
            features.get(name, spec if len(features) > 1 else next(iter(features.values())))[0]
            for name, spec in inputs.items()
        ]
        shapes = [shape for _, shape in inputs.values()]
        return _example(form, zip(names, zip(types, shapes, strict=True), strict=True), given)
    if len(features) == 1:
        return _example("bare", zip(["features"], features.values(), strict=True), given)
    failed = ""
    for form in ("dict", "list"):
        example = _example(form, features.items(), given)
        try:
            symbolic(model, example)
        except Exception as error:  # raised by user code
            failed = str(error)
        else:
            return example
    raise ConfigurationError(
        "`call` of a subclassed model must take several features as a dict by name or as a list. "
        f"Received: {list(features)} for {model.name!r} ({type(model).__name__}), which fails with "
        f"both: {failed}"
    )


def _example(form: Form, features: Iterable[tuple[str, Spec]], given: Example) -> Example:
    columns = [(f"features/{name}", *spec) for name, spec in features]
    rest = [column for column in given.columns if not column[0].startswith("features/")]
    return Example(form=form, columns=(*columns, *rest))


def is_known(model: Any) -> bool:
    """Whether the model's inputs are known without data."""
    return model in _examples or _known_inputs(model) is not None


def remember(model: Any, example: Example) -> None:
    """Record the input types from which `model` is built."""
    _examples[model] = example
    _signatures.pop(model, None)


def symbolic(model: Any, example: Example) -> Any:
    """Call the model on symbolic features, which creates its variables; return its outputs."""
    # Raises whatever `call` raises.
    import keras

    specs = example.group("features")
    values = [keras.KerasTensor((None, *shape), dtype) for dtype, shape in specs.values()]
    # A call adds a node to the model permanently; remove it.
    nodes = len(model._inbound_nodes)
    try:
        return model(pack(example.form, list(specs), values), training=False)
    finally:
        del model._inbound_nodes[nodes:]


def has_call(model: Any) -> bool:
    """Whether the model implements `call`."""
    import keras

    return is_graph(model) or type(model).call is not keras.Model.call


def _outputs(model: Any, example: Example) -> tuple[dict[str, Spec], Form]:
    try:
        given = symbolic(model, example) if has_call(model) else None
    except Exception:  # raised by user code
        given = None
    if isinstance(given, Mapping):
        return {name: _spec(given[name]) for name in sorted(given)}, "dict"
    if isinstance(given, list | tuple):
        return {f"output_{i}": _spec(tensor) for i, tensor in enumerate(given, 1)}, "list"
    return ({}, "bare") if given is None else ({"output": _spec(given)}, "bare")


def _known_inputs(model: Any) -> tuple[Form, Mapping[str, Spec]] | None:
    """Structure and types of the inputs, from the model's graph or its build shapes."""
    import keras

    if is_graph(model):
        known = signature_of(model)
        return known.input_form, known.inputs
    recorded: Any = getattr(model, "_build_shapes_dict", None)
    shape = next(iter(recorded.values())) if recorded else None
    if not shape:
        return None
    shapes = {"features": shape}
    form: Form = "bare"
    if isinstance(shape, Mapping):
        form, shapes = "dict", shape
    elif all(isinstance(each, list | tuple) for each in shape):
        form, shapes = "list", {f"input_{i}": each for i, each in enumerate(shape, 1)}
    dtype = str(keras.config.floatx())  # Keras does not record the dtype
    return form, {str(name): (dtype, tuple(each[1:])) for name, each in shapes.items()}


def _spec(tensor: Any) -> Spec:
    return str(getattr(tensor, "dtype", "float32")), tuple(tensor.shape[1:])


def _form_for(names: Mapping[str, Any]) -> Form:
    return "bare" if len(names) == 1 else "list"
