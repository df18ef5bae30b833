"""Code of the user's own modules, for executors that do not have them."""

import importlib
from types import ModuleType

from sparkwright.errors import ConfigurationError


def send_by_value(*modules: ModuleType) -> None:
    """Send what these modules define whole, wherever a network or a function mentions it.

    Layers, losses and functions defined in a notebook travel by themselves. Those of a module that
    lies beside it are sent by name, and an executor that cannot import the module fails. After this
    call they are sent like a notebook's own; a change counts from the next run on, if the module is
    reloaded. A function that itself imports such a module when called still needs it there: use
    `spark.sparkContext.addPyFile` for these.

    Args:
        modules: imported modules or packages; a package with all that is below it.

    Raises:
        ConfigurationError: if one is no module, or the engine itself, which goes by other ways.

    Example:
        import my_layers
        sw.send_by_value(my_layers)
    """
    for module in modules:
        if not isinstance(module, ModuleType):
            raise ConfigurationError(
                "`send_by_value` takes imported modules. Received: "
                f"{type(module).__name__} {module!r}. Import it, and give the module."
            )
        if module.__name__.partition(".")[0] == "sparkwright":
            raise ConfigurationError(
                f"the engine goes to executors by itself. Received: {module.__name__}. Name your "
                "own modules only."
            )
    # Spark's closures and the engine's requests are pickled by two copies of the same library.
    for name in ("cloudpickle", "pyspark.cloudpickle"):
        library = importlib.import_module(name)
        for module in modules:
            library.register_pickle_by_value(module)
