"""A compiled Keras model as a configuration or a builder function, from which workers build it."""

import contextlib
import functools
import hashlib
import json
import warnings
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkwright.errors import ConfigurationError

from .adapted import adapted_in_config
from .backend import Backend, backend_name
from .building import REMEDY, builder_of, complete, model_of, parameter_count, serialize
from .lora import freeze_parts, frozen_parts
from .optimizer_checks import exclude_from_weight_decay, weight_decay_exclusions
from .own_objects import own_objects
from .signature import Example, example_of, has_call, is_graph, output_names, rename_outputs
from .state import ModelState
from .steps import backend_for, is_traced, optimizers_of, overrides

# Where the configuration of a functional model refers to its layers by name.
_CONNECTIONS = ("keras_history", "input_layers", "output_layers")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDefinition:
    """Architecture and compile settings of a model, without its weights.

    Attributes:
        name: the model's name.
        config: JSON of `keras.saving.serialize_keras_object(model)`, with compile settings; empty
            if `builder` is set.
        custom_objects: cloudpickled dict of the user's custom layers, losses and metrics, by their
            names in the configuration. It is written and read only within one user's Spark session
            or process tree, which already transfers that user's functions.
        parameters: number of elements of the model's weights.
        policy: Keras' dtype policy of the model; None: unknown.
        backend: Keras' backend where the model was built, and on workers.
        undecayed: variables excluded from weight decay, as JSON; "": none.
        builder: cloudpickled user function that builds the model, if the configuration does not
            describe it completely. Empty: none. It is transferred like `custom_objects`.
        layout: with `builder`, (name, dtype, shape) of each variable, then the optimizers' classes.
        example: input types from which a subclassed model is built; None: not needed.
        traced: whether the optimizers in use are found by tracing `train_step`.
        outputs: output names of a Sequential or functional model, because Keras generates a new
            name for an unnamed layer at each build.
    """

    name: str
    config: str
    custom_objects: bytes
    parameters: int
    policy: str | None = None
    backend: Backend = "tensorflow"
    undecayed: str = ""
    builder: bytes = b""
    layout: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    example: Example | None = None
    traced: bool = False
    outputs: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hash of the definition, by which workers cache replicas.

        Initializers are left out, because the driver sends the weights.
        """
        code = self.custom_objects + self.builder
        if self.example is not None:
            code += repr((self.example, self.traced)).encode()
        rest = "\0".join([str(self.policy), self.undecayed, *self.outputs])
        return _fingerprint(self.config, code, rest)

    @property
    def architecture(self) -> str:
        """Hash of the architecture, equal for models built by the same code in any process.

        Unlike `fingerprint`, it leaves out the code of custom layers and the names, which Keras
        numbers per process. With a `builder`, it is the hash of `layout`.
        """
        if self.builder:
            content = json.dumps(self.layout)
            return hashlib.sha256(content.encode()).hexdigest()[:24]
        config = _nameless(_without_initializers(self.config), {})
        content = json.dumps(config, sort_keys=True) + self.undecayed
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    @classmethod
    def of(cls, model: Any) -> "ModelDefinition":
        """Describe a built and compiled model by its configuration, or by its builder function.

        A subclassed model is built a second time to check that it gets the same variables.

        Raises:
            ConfigurationError:
                - Keras cannot serialize the model (a subclassed model without `get_config`, a
                  lambda as a loss, ...) or rebuilds a different one, and no builder is known.
                - The builder function returns different models.
                - A preprocessing layer has not been adapted.
                - Keras' backend is neither TensorFlow nor JAX.
                - The backend is JAX, and an input is text or the model overrides a step.
        """
        import cloudpickle

        backend_for(model)
        builder = builder_of(model)
        chooser = getattr(getattr(model, "optimizer", None), "_optimizer_map", None)
        if builder is None and getattr(chooser, "__name__", "") == "<lambda>":
            raise ConfigurationError(
                "the function of a MultiOptimizer must have a name, so that workers can find it. "
                "Received: a lambda. Write it with `def`, or use an OptimizerMap."
            )
        with adapted_in_config(model):
            serialized = serialize(model)
        if serialized is not None and not has_call(model):
            serialized.pop("build_config", None)  # Keras would build the optimizer for no variable
        described = replace(
            cls._configured(model, serialized, parameters=parameter_count(model)),
            undecayed=weight_decay_exclusions(model),
            example=example_of(model) if is_traced(model) or not is_graph(model) else None,
            traced=is_traced(model),
        )
        if serialized is not None and _is_plain(model):
            return described
        reason = "none" if serialized is None else _difference(model, described)
        if not reason:
            return described
        if builder is None:
            raise ConfigurationError(
                f"workers must be able to build the model {model.name!r} again. Received: a "
                f"{type(model).__name__} from whose configuration Keras builds another model: "
                f"{reason} {REMEDY}"
            )
        built = replace(
            described,
            config="",
            custom_objects=b"",
            builder=cloudpickle.dumps(builder),
            layout=tuple((v.name, str(v.dtype), tuple(v.shape)) for v in model.variables)
            + tuple((type(each).__name__, "", ()) for each in optimizers_of(model)),
        )
        if reason := _difference(model, built):
            raise ConfigurationError(
                "the function that builds the model must build the same one each time. Received: "
                f"a function for {model.name!r} whose second model differs: {reason}"
            )
        return built

    @classmethod
    def of_layer(cls, layer: Any) -> "ModelDefinition":
        """Describe a preprocessing layer without its adapted state."""
        return cls._configured(layer, serialize(layer), parameters=0)

    @classmethod
    def _configured(
        cls, model: Any, serialized: dict[str, Any] | None, *, parameters: int
    ) -> "ModelDefinition":
        import cloudpickle

        objects: dict[str, Any] = {}
        if serialized is not None:
            serialized |= {"frozen": parts} if (parts := frozen_parts(model)) else {}
            objects = own_objects(model, serialized)
        return cls(
            name=model.name,
            config="" if serialized is None else json.dumps(serialized, sort_keys=True),
            custom_objects=cloudpickle.dumps(objects) if objects else b"",
            parameters=parameters,
            policy=getattr(getattr(model, "dtype_policy", None), "name", None),
            backend=backend_name(),
            outputs=tuple(output_names(model)) if is_graph(model) else (),
        )

    def build(self) -> Any:
        """Build and compile the model with newly initialized weights.

        Raises:
            ConfigurationError: if the user's function returns no model, or the model's variables
                cannot be created.
            Exception: any error that a custom layer raises while it is built.
        """
        import cloudpickle
        import keras

        objects = cloudpickle.loads(self.custom_objects) if self.custom_objects else {}
        with keras.saving.custom_object_scope(objects), dtype_policy(self.policy):
            if self.builder:
                model = model_of(cloudpickle.loads(self.builder))
                rename_outputs(model, self.outputs)
            else:
                with warnings.catch_warnings():
                    if self.example is not None:  # Keras warns of an unbuilt model; built below
                        warnings.simplefilter("ignore", UserWarning)
                    config = json.loads(self.config)
                    compiled = config.get("compile_config")
                    model = keras.saving.deserialize_keras_object(config, safe_mode=False)
                    if rename_outputs(model, self.outputs) and compiled:
                        model.compile_from_config(compiled)  # losses are keyed by output names
                freeze_parts(model, config.get("frozen", {}))
            if self.example is not None:
                complete(model, self.example, traced=self.traced)
        exclude_from_weight_decay(model, self.undecayed)
        return model


def _is_plain(model: Any) -> bool:
    """Whether a model's configuration determines all its variables."""
    import keras

    if is_traced(model) or overrides(model, "compile"):
        return False
    layers = list(model._flatten_layers())
    if any(getattr(layer, "quantization_mode", None) == "float8" for layer in layers):
        return False  # `quantize` changes the order of variables
    return all(is_graph(x) for x in layers if isinstance(x, keras.Model))


def _difference(model: Any, definition: ModelDefinition) -> str:
    """The first difference between `model` and the model that `definition` builds; empty: none."""
    if overrides(model, "compile") and not (
        definition.builder or overrides(model, "compile_from_config")
    ):
        return "the arguments of its own `compile` are not restored."
    try:
        other = definition.build()
        mine, theirs = _groups(model), _groups(other)
    except Exception as error:  # raised by user code
        return [type(error).__name__, *str(error).strip().splitlines()][-1]
    for what, variables in mine.items():
        if variables != theirs[what]:
            return f"{what}: {_shortened(theirs[what])} instead of {_shortened(variables)}."
    return ""


def _groups(model: Any) -> dict[str, list[Any]]:
    used = optimizers_of(model)
    state = ModelState.of(model, training=bool(used))
    return {
        "its optimizers": [type(optimizer).__name__ for optimizer in used],
        "its trained variables": _shapes(state.averaged),
        "its integer state": _shapes(state.counters),
        "its frozen variables": _shapes(state.fixed),
        "its optimizers' variables": _shapes(state.updater),
    }


def _shapes(variables: Sequence[Any]) -> list[Any]:
    return [(str(variable.dtype), *variable.shape) for variable in variables]


def _shortened(values: Sequence[Any]) -> str:
    text = ", ".join(map(str, values[:4])) or "none"
    return f"{text}, … ({len(values)})" if len(values) > 4 else text


@contextlib.contextmanager
def dtype_policy(name: str | None) -> Generator[None]:
    """Set Keras' default dtype policy within the block; None: keep the current one."""
    # Loss scaling, and with it the optimizer's variables, depend on the policy at compile time.
    import keras

    before = keras.config.dtype_policy()
    if name is None or name == before.name:
        yield
        return
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


@functools.lru_cache(maxsize=16)  # needed for every block of an evaluation
def _fingerprint(config: str, custom_objects: bytes, rest: str) -> str:
    text = json.dumps(_without_initializers(config), sort_keys=True)
    text += f"\0{rest}\0"
    return hashlib.sha256(text.encode() + custom_objects).hexdigest()[:24]


def _without_initializers(config: str) -> Any:
    def kept(items: dict[str, Any]) -> dict[str, Any]:
        return {key: v for key, v in items.items() if not key.endswith("_initializer")}

    return json.loads(config or "{}", object_hook=kept)


def _nameless(value: Any, numbers: Mapping[str, str]) -> Any:
    """Return a configuration without names; connections refer to the numbers of layers."""
    import keras

    if isinstance(value, list):
        return [_nameless(inner, numbers) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if str(value.get("class_name")).endswith("DTypePolicy"):  # its name is what it is
        return value
    layers = value.get("layers")
    if isinstance(layers, list):
        # Of this model alone: a model in it may have layers of the same names.
        numbers = {
            str(inner.get("name")): f"#{n}"
            for n, layer in enumerate(layers)
            if isinstance(layer, Mapping) and isinstance(inner := layer.get("config"), Mapping)
        }

    def renamed(name: Any) -> Any:
        return numbers.get(name, name) if isinstance(name, str) else name

    return {
        key: keras.tree.map_structure(renamed, inner)
        if key in _CONNECTIONS
        else _nameless(inner, numbers)
        for key, inner in value.items()
        if key != "name"
    }
