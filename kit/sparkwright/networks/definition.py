"""A compiled Keras model as text or as the function that builds it, so that workers can, too."""

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
from .own_objects import entries, own_objects
from .signature import Example, example_of, has_call, is_graph, output_names, rename_outputs
from .state import ModelState
from .steps import backend_for, is_traced, optimizers_of, overrides


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDefinition:
    """Architecture and compile settings of a model, without its weights.

    Attributes:
        name: the model's name.
        config: `keras.saving.serialize_keras_object(model)`'s JSON, compile settings included;
            empty if `builder` takes its place.
        custom_objects: cloudpickled dict of the user's own layers, losses and metrics, by the name
            under which the configuration mentions them; made and read only inside one user's Spark
            session or process tree, by the channel that already carries that user's functions.
        parameters: how many numbers the model's weights hold.
        policy: Keras' dtype policy of the model; None: unknown.
        backend: what Keras computes with where the model was built, and on workers.
        undecayed: which variables are excluded from weight decay, as JSON; "": none.
        builder: cloudpickled function of the user that builds the model, where no configuration
            describes it; it travels as `custom_objects` do. Empty: none.
        layout: (name, dtype, shape) of each variable, then the optimizers' classes, if there is a
            `builder`.
        example: what a subclassed model is built from; None: not needed.
        traced: whether a trace of `train_step` tells which optimizers it uses.
        outputs: names of a Sequential or functional model's outputs: Keras gives a layer without a
            name of its own another one each time.
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
        """The same for the same definition: replicas are kept and found again by it.

        How weights begin does not count: they come from the driver.
        """
        code = self.custom_objects + self.builder
        if self.example is not None:
            code += repr((self.example, self.traced)).encode()
        rest = "\0".join([str(self.policy), self.undecayed, *self.outputs])
        return _fingerprint(self.config, code, rest)

    @property
    def architecture(self) -> str:
        """The same for networks built by the same code, also in another process.

        Unlike the `fingerprint` it leaves out names, which Keras counts on within a process, and
        the code of custom layers. Of a model with a `builder` its variables count.
        """
        if self.builder:
            content = json.dumps(self.layout)
            return hashlib.sha256(content.encode()).hexdigest()[:24]
        config = _without_initializers(self.config)
        names: dict[str, str] = {}
        for entry in entries(config):
            inner = entry.get("config")
            name = inner.get("name") if isinstance(inner, Mapping) else None
            if isinstance(name, str):
                names.setdefault(name, f"#{len(names)}")
        content = json.dumps(_renamed(config, names), sort_keys=True) + self.undecayed
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    @classmethod
    def of(cls, model: Any) -> "ModelDefinition":
        """Describe a built and compiled model: by its configuration, or the function that built it.

        A subclassed model is built once more here, to check that it gets the same variables.

        Raises:
            ConfigurationError: if Keras cannot describe it (a subclassed model without
                `get_config`, a lambda as a loss, ...), or builds another model from what it
                describes, and there is no function either; the message carries the reason. Or if a
                preprocessing layer has not been adapted; if Keras' backend is neither TensorFlow
                nor JAX, or JAX and an input is text or a step the model's own.
        """
        import cloudpickle

        backend_for(model)
        builder = builder_of(model)
        chooser = getattr(getattr(model, "optimizer", None), "_optimizer_map", None)
        if builder is None and getattr(chooser, "__name__", "") == "<lambda>":
            raise ConfigurationError(
                "the function of a MultiOptimizer must have a name, by which workers find it. "
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
                f"{type(model).__name__} of whose configuration Keras makes another model: "
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
                f"one for {model.name!r}, of which the second differs: {reason}"
            )
        return built

    @classmethod
    def of_layer(cls, layer: Any) -> "ModelDefinition":
        """Describe a preprocessing layer, without what it was adapted to."""
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
        """Build and compile the model again, with fresh weights.

        Raises:
            ConfigurationError: if the user's function returns no model, or the model's variables
                cannot be created.
            Exception: what else a user's layer raises while it is built.
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
                    if self.example is not None:  # what is not built, or not compiled, is noticed
                        warnings.simplefilter("ignore", UserWarning)
                    config = json.loads(self.config)
                    compiled = config.get("compile_config")
                    model = keras.saving.deserialize_keras_object(config, safe_mode=False)
                    if rename_outputs(model, self.outputs) and compiled:
                        model.compile_from_config(compiled)  # losses go by these names
                freeze_parts(model, config.get("frozen", {}))
            if self.example is not None:
                complete(model, self.example, traced=self.traced)
        exclude_from_weight_decay(model, self.undecayed)
        return model


def _is_plain(model: Any) -> bool:
    """Whether a model's configuration says all that there is to say of its variables."""
    import keras

    if is_traced(model) or overrides(model, "compile"):
        return False
    layers = list(model._flatten_layers())
    if any(getattr(layer, "quantization_mode", None) == "float8" for layer in layers):
        return False  # `quantize` puts variables last that are built before others
    return all(is_graph(x) for x in layers if isinstance(x, keras.Model))


def _difference(model: Any, definition: ModelDefinition) -> str:
    """How the model that `definition` builds differs from `model`; empty: in nothing."""
    if overrides(model, "compile") and not (
        definition.builder or overrides(model, "compile_from_config")
    ):
        return "not with what its own `compile` was given."
    try:
        other = definition.build()
        mine, theirs = _groups(model), _groups(other)
    except Exception as error:  # of the user's own code
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
    """Make `name` this thread's default policy for the block; None: leave it.

    Whether an optimizer scales the loss depends on it, so a model that was compiled under another
    one has other variables.
    """
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


@functools.lru_cache(maxsize=16)  # asked for with every block of an evaluation
def _fingerprint(config: str, custom_objects: bytes, rest: str) -> str:
    text = json.dumps(_without_initializers(config), sort_keys=True)
    text += f"\0{rest}\0"
    return hashlib.sha256(text.encode() + custom_objects).hexdigest()[:24]


def _without_initializers(config: str) -> Any:
    def kept(items: dict[str, Any]) -> dict[str, Any]:
        return {key: v for key, v in items.items() if not key.endswith("_initializer")}

    return json.loads(config or "{}", object_hook=kept)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value
