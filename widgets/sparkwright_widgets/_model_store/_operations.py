"""What is done at the store, each with a time within which it must answer."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from sparkwright.errors import RunTimeoutError
from sparkwright.storage import (
    ModelInfo,
    ModelList,
    delete_model,
    list_models,
    load_model,
    model_info,
    save_model,
    verify_model,
)
from sparkwright.storage.files import exists
from sparkwright_widgets._format import count_text, duration_text

Result = TypeVar("Result")


class Operations:
    """Calls of the engine; tests put others in their place."""

    def list(self, url: str, *, recursive: bool) -> ModelList:
        """See `list_models`; a folder that is not there has no models."""
        try:
            return list_models(url, recursive=recursive)
        except FileNotFoundError:
            if any(sign in url for sign in "*?["):
                raise
            return ModelList(url, ())

    def there(self, url: str) -> ModelInfo | None:
        """What is at `url` already; None: nothing."""
        if not exists(url):
            return None
        try:
            return model_info(url)
        except ValueError as error:  # a DataError among them: no model, and there all the same
            return ModelInfo(url=url, size_bytes=0, problem=str(error))

    def save(self, network: Any, url: str, settings: Mapping[str, Any]) -> None:
        """Write a network or a Keras model, with its metadata."""
        given = dict(settings)
        save_updater = given.pop("save_updater")
        if is_network(network):
            network.save(url, save_updater=save_updater, **given)
        else:
            save_model(network, url, save_updater=save_updater, metadata=given)

    def load(self, network: Any, url: str, custom_objects: dict[str, Any] | None) -> Any:
        """Another one of the kind of `network`; a Keras model if there is none."""
        if not is_network(network):
            return load_model(url, custom_objects=custom_objects)
        return type(network).load(network.spark, url, network.master, custom_objects=custom_objects)

    def verify(self, url: str) -> ModelInfo:
        """See `verify_model`."""
        return verify_model(url)

    def delete(self, url: str) -> bool:
        """See `delete_model`."""
        return delete_model(url)


def check_all(operations: Operations, urls: Sequence[str]) -> list[str]:
    """Check each model; a sentence for each."""
    found: list[str] = []
    for url in urls:
        name = url.rpartition("/")[2]
        try:
            info = operations.verify(url)
        except (OSError, ValueError) as error:
            found.append(f"✕ {name}: {error}")
            continue
        found.append(
            f"✓ {name}: all parts match their checksums."
            if info.format == "keras"
            else f"✓ {name}: nothing wrong found; HDF5 has no checksums to compare."
        )
    return found


def delete_all(operations: Operations, urls: Sequence[str]) -> list[str]:
    """Delete each model; a sentence about those that went, and one for each that did not."""
    gone: list[str] = []
    others: list[str] = []
    for url in urls:
        name = url.rpartition("/")[2]
        try:
            if operations.delete(url):
                gone.append(url)
            else:
                others.append(f"{name} had gone before.")
        except (OSError, ValueError) as error:
            others.append(f"✕ {name}: {error}")
    return [*([f"✓ Deleted {several(gone)}."] if gone else []), *others]


def several(urls: Sequence[str]) -> str:
    """Names of a few files, else how many.

    Example:
        >>> several(["/a/x.keras", "/a/y.keras"])
        'x.keras, y.keras'
    """
    names = [url.rpartition("/")[2] for url in urls]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{count_text(len(names))} models ({', '.join(names[:2])}, …)"


def is_network(network: Any) -> bool:
    """Whether it is a SparkNetwork rather than a Keras model."""
    return all(hasattr(network, name) for name in ("spark", "model", "master", "save"))


def answered(work: Callable[[], Result], *, what: str, timeout_s: float) -> Result:
    """The result of `work`, which a store may leave hanging.

    Args:
        work: done on a daemon thread of its own; what comes too late is dropped.
        what: what is waited for, as in "Listing hdfs://models".
        timeout_s: how long to wait.

    Raises:
        RunTimeoutError: if it takes longer.
        Whatever `work` raises.
    """
    outcome: Future[Result] = Future()

    def main() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=main, name="sparkwright-store", daemon=True).start()
    if not wait([outcome], timeout_s).done:
        raise RunTimeoutError(
            f"{what}: the store must answer within {duration_text(timeout_s)}. Received: nothing "
            "so far. Check the host and the network, then try again; what was begun may still be "
            "done by the store."
        )
    return outcome.result()
