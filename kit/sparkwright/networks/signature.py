"""Names, shapes and dtypes of any model's inputs and outputs, subclassed models included."""

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
    """What a subclassed model was built from.

    Attributes:
        form: how `call` takes its features: one array, a list, or a dict by name.
        columns: (flat name as `DataSet.columns` gives it, dtype, shape of one example).
    """

    form: Form
    columns: tuple[tuple[str, str, Shape], ...]

    def group(self, name: str) -> dict[str, Spec]:
        """The columns of "features" or "labels", by their name in the group."""
        begins = f"{name}/"
        return {
            column.removeprefix(begins): (dtype, shape)
            for column, dtype, shape in self.columns
            if column.startswith(begins)
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What a model takes and gives.

    Attributes:
        inputs: name -> (dtype, shape of one example).
        outputs: likewise, in the order of the flat outputs; empty if `call` cannot be traced, as
            that of a model that is only trained.
        input_form: how the model takes its inputs.
        output_form: how it gives its outputs, and takes labels.
    """

    inputs: Mapping[str, Spec]
    outputs: Mapping[str, Spec]
    input_form: Form
    output_form: Form


_examples: "WeakKeyDictionary[Any, Example]" = WeakKeyDictionary()
_signatures: "WeakKeyDictionary[Any, Signature]" = WeakKeyDictionary()


def is_graph(model: Any) -> bool:
    """Whether the model is Sequential or functional, and built: it knows its own tensors."""
    return bool(getattr(model, "inputs", None)) and bool(getattr(model, "outputs", None))


def signature_of(model: Any) -> Signature:
    """What `model` takes and gives.

    A subclassed model with one input takes an array named "features"; one that was built with a
    list takes "input_1", "input_2", …, or the names of the data it was built from; one that was
    built with a dict takes its keys. A single output is named "output", those of a list
    "output_1", …, and those of a dict by their keys, sorted.

    Raises:
        ConfigurationError: if the model is not built.
    """
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
    """The names of the model's outputs; a Sequential model's is its last layer's.

    Raises:
        ConfigurationError: as `output_types`.
    """
    return list(output_types(model))


def rename_outputs(model: Any, names: Sequence[str]) -> bool:
    """Give the outputs of a Sequential or functional model these names; return if others before."""
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
    """Output name -> (dtype, shape of one example).

    Raises:
        ConfigurationError: if the model is not built, or its `call` gives no outputs.
    """
    outputs = dict(graph_outputs(model) or signature_of(model).outputs)
    if not outputs:
        raise ConfigurationError(
            "predictions and evaluations need a model whose `call` TensorFlow can trace. Received: "
            f"{model.name!r} ({type(model).__name__}), whose cannot. Give the class a `call`, or "
            "use one of the models that it holds."
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
    """The values as a model takes them; None for no value."""
    if form == "dict":
        return dict(zip(names, values, strict=True)) or None
    return values[0] if len(values) == 1 and form == "bare" else list(values) or None


# -- subclassed models -------------------------------------------------------------------------


def example_of(model: Any) -> Example:
    """What a subclassed model was built from: recorded by Sparkwright, or else by Keras.

    Raises:
        ConfigurationError: if neither knows.
    """
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
    """What `model` is to be built from, given the columns of the data.

    Shapes that are known stay, open axes too. One array of features is taken as it is; several are
    taken as a dict by name if `call` takes one, and otherwise as a list.

    Raises:
        ConfigurationError: if `call` takes neither.
    """
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
        except Exception as error:  # of the user's own code
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
    """Whether the model's inputs are known without looking at data."""
    return model in _examples or _known_inputs(model) is not None


def remember(model: Any, example: Example) -> None:
    """Record what `model` is built from."""
    _examples[model] = example
    _signatures.pop(model, None)


def symbolic(model: Any, example: Example) -> Any:
    """Call the model on symbolic features, which creates its variables; returns its outputs.

    Raises:
        Whatever `call` raises.
    """
    import keras

    specs = example.group("features")
    values = [keras.KerasTensor((None, *shape), dtype) for dtype, shape in specs.values()]
    # A call adds a node to the model, which would stay for good.
    nodes = len(model._inbound_nodes)
    try:
        return model(pack(example.form, list(specs), values), training=False)
    finally:
        del model._inbound_nodes[nodes:]


def has_call(model: Any) -> bool:
    """Whether the model computes outputs by itself."""
    import keras

    return is_graph(model) or type(model).call is not keras.Model.call


def _outputs(model: Any, example: Example) -> tuple[dict[str, Spec], Form]:
    try:
        given = symbolic(model, example) if has_call(model) else None
    except Exception:  # of the user's own code
        given = None
    if isinstance(given, Mapping):
        return {name: _spec(given[name]) for name in sorted(given)}, "dict"
    if isinstance(given, list | tuple):
        return {f"output_{i}": _spec(tensor) for i, tensor in enumerate(given, 1)}, "list"
    return ({}, "bare") if given is None else ({"output": _spec(given)}, "bare")


def _known_inputs(model: Any) -> tuple[Form, Mapping[str, Spec]] | None:
    """The form and the inputs that Keras knows, or recorded when it built the model."""
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
    dtype = str(keras.config.floatx())  # which Keras does not record
    return form, {str(name): (dtype, tuple(each[1:])) for name, each in shapes.items()}


def _spec(tensor: Any) -> Spec:
    return str(getattr(tensor, "dtype", "float32")), tuple(tensor.shape[1:])


def _form_for(names: Mapping[str, Any]) -> Form:
    return "bare" if len(names) == 1 else "list"
