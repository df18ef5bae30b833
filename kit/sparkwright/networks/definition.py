"""A compiled Keras model as text, so that a worker can build it again: no pickled models."""

import contextlib
import functools
import hashlib
import json
import sys
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from .backend import Backend, backend_name


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDefinition:
    """Architecture and compile settings of a model, without its weights.

    Attributes:
        name: the model's name.
        config: `keras.saving.serialize_keras_object(model)`'s JSON, compile settings included.
        custom_objects: cloudpickled dict of the user's own layers, losses and metrics, by the name
            under which the configuration mentions them; made and read only inside one user's Spark
            session or process tree, by the channel that already carries that user's functions.
        parameters: how many numbers the model's weights hold.
        policy: Keras' dtype policy of the model; None: unknown.
        backend: what Keras computes with where the model was built, and on workers.
    """

    name: str
    config: str
    custom_objects: bytes
    parameters: int
    policy: str | None = None
    backend: Backend = "tensorflow"

    @property
    def fingerprint(self) -> str:
        """The same for the same definition: replicas are kept and found again by it.

        How weights begin does not count: they come from the driver.
        """
        return _fingerprint(self.config, self.custom_objects, self.policy)

    @property
    def architecture(self) -> str:
        """The same for networks built by the same code, also in another process.

        Unlike the `fingerprint` it leaves out names, which Keras counts on within a process, and
        the code of custom layers.
        """
        config = _without_initializers(self.config)
        names: dict[str, str] = {}
        for entry in _entries(config):
            inner = entry.get("config")
            name = inner.get("name") if isinstance(inner, Mapping) else None
            if isinstance(name, str):
                names.setdefault(name, f"#{len(names)}")
        content = json.dumps(_renamed(config, names), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:24]

    @classmethod
    def of(cls, model: Any) -> "ModelDefinition":
        """Describe a built and compiled model.

        Raises:
            ConfigurationError: if Keras cannot describe it (a subclassed model without
                `get_config`, a lambda as a loss, ...), with Keras' own reason; if Keras' backend is
                neither TensorFlow nor JAX, or JAX and an input is text.
        """
        import cloudpickle
        import keras

        backend = backend_name()
        if backend == "jax":
            _refuse_text(model)

        try:
            serialized = keras.saving.serialize_keras_object(model)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ConfigurationError(
                f"the model {model.name!r} cannot be written as a configuration, which is how it "
                f"travels to the workers: {error} Use a Sequential or functional model, and give "
                "custom layers a `get_config`."
            ) from error
        config = json.dumps(serialized, sort_keys=True)
        objects = {**_mentioned(serialized), **_live(model)}
        return cls(
            name=model.name,
            config=config,
            custom_objects=cloudpickle.dumps(objects) if objects else b"",
            parameters=int(model.count_params()),
            policy=getattr(getattr(model, "dtype_policy", None), "name", None),
            backend=backend,
        )

    def build(self) -> Any:
        """Build and compile the model again, with fresh weights.

        Raises:
            Whatever a user's layer raises while it is built.
        """
        import cloudpickle
        import keras

        objects = cloudpickle.loads(self.custom_objects) if self.custom_objects else {}
        with keras.saving.custom_object_scope(objects), dtype_policy(self.policy):
            return keras.saving.deserialize_keras_object(json.loads(self.config), safe_mode=False)


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
def _fingerprint(config: str, custom_objects: bytes, policy: str | None) -> str:
    text = json.dumps(_without_initializers(config), sort_keys=True)
    text += f"\0{policy}\0"
    return hashlib.sha256(text.encode() + custom_objects).hexdigest()[:24]


def _without_initializers(config: str) -> Any:
    def kept(items: dict[str, Any]) -> dict[str, Any]:
        return {key: v for key, v in items.items() if not key.endswith("_initializer")}

    return json.loads(config, object_hook=kept)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


def _refuse_text(model: Any) -> None:
    for tensor in getattr(model, "inputs", None) or ():
        if str(tensor.dtype) == "string":
            raise ConfigurationError(
                "inputs of text need Keras on TensorFlow. Received: input "
                f"{tensor.name!r} of dtype string, with Keras on JAX. Set KERAS_BACKEND=tensorflow "
                "before Keras is imported, or turn text into numbers before training."
            )


def _live(model: Any) -> dict[str, Any]:
    """The user's own classes and functions that the live model holds."""
    import keras

    optimizer = getattr(model, "optimizer", None)
    compiled = getattr(model, "_compile_config", None)
    things: list[Any] = [
        *model._flatten_layers(),
        optimizer,
        getattr(optimizer, "_learning_rate", None),
    ]
    things += [] if compiled is None else keras.tree.flatten(compiled.config)
    found: dict[str, Any] = {}
    for thing in things:
        kind = thing if isinstance(thing, type) or _is_function(thing) else type(thing)
        if _is_custom(getattr(kind, "__module__", None)):
            found[str(keras.saving.get_registered_name(kind))] = found[kind.__name__] = kind
    return found


def _mentioned(serialized: Any) -> dict[str, Any]:
    """The user's own classes and functions that the configuration mentions by module and name."""
    found: dict[str, Any] = {}
    for entry in _entries(serialized):
        module = entry.get("module")
        name: Any = entry.get("config" if entry["class_name"] == "function" else "class_name")
        if not (_is_custom(module) and isinstance(name, str)):
            continue
        thing = getattr(sys.modules.get(str(module)), name, None)
        if thing is not None:
            found[entry.get("registered_name") or name] = found[name] = thing
    return found


def _entries(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects in a configuration."""
    if isinstance(value, Mapping):
        if "class_name" in value:
            yield value
        value = [*value.values()]
    for inner in value if isinstance(value, list | tuple) else ():
        yield from _entries(inner)


def _is_function(thing: Any) -> bool:
    return callable(thing) and hasattr(thing, "__name__") and hasattr(thing, "__code__")


def _is_custom(module: str | None) -> bool:
    return bool(module) and str(module).split(".")[0] not in {
        "keras",
        "builtins",
        "tensorflow",
        "jax",
    }
