"""Operations on the model storage, with timeouts."""

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
    """Calls of the storage API; tests replace them."""

    def list(self, url: str, *, recursive: bool) -> ModelList:
        """Call `list_models`; return an empty list if the folder does not exist."""
        try:
            return list_models(url, recursive=recursive)
        except FileNotFoundError:
            if any(sign in url for sign in "*?["):
                raise
            return ModelList(url)

    def there(self, url: str) -> ModelInfo | None:
        """The existing file at `url`; None if there is none."""
        if not exists(url):
            return None
        try:
            return model_info(url)
        except ValueError as error:  # includes DataError: the file exists but is not a model
            return ModelInfo(url=url, size_bytes=0, problem=str(error))

    def save(self, network: Any, url: str, settings: Mapping[str, Any]) -> None:
        """Save a network or a Keras model with its metadata."""
        given = dict(settings)
        save_updater = given.pop("save_updater")
        if is_network(network):
            network.save(url, save_updater=save_updater, **given)
        else:
            save_model(network, url, save_updater=save_updater, metadata=given)

    def load(self, network: Any, url: str) -> Any:
        """Load a network of the type of `network`; a Keras model if it is None."""
        if not is_network(network):
            return load_model(url)
        return type(network).load(network.spark, url, network.master)

    def verify(self, url: str) -> ModelInfo:
        return verify_model(url)

    def delete(self, url: str) -> bool:
        return delete_model(url)


def check_all(operations: Operations, urls: Sequence[str]) -> list[str]:
    """Verify each model and return a sentence per model."""
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
            else f"✓ {name}: no errors found. HDF5 files have no checksums."
        )
    return found


def delete_all(operations: Operations, urls: Sequence[str]) -> list[str]:
    """Delete each model; return a sentence on the deleted ones, and one per failure."""
    gone: list[str] = []
    others: list[str] = []
    for url in urls:
        name = url.rpartition("/")[2]
        try:
            if operations.delete(url):
                gone.append(url)
            else:
                others.append(f"{name} does not exist.")
        except (OSError, ValueError) as error:
            others.append(f"✕ {name}: {error}")
    return [*([f"✓ Deleted {several(gone)}."] if gone else []), *others]


def several(urls: Sequence[str]) -> str:
    """The names of up to three files, else their number and the first names.

    Example:
        >>> several(["/a/x.keras", "/a/y.keras"])
        'x.keras, y.keras'
    """
    names = [url.rpartition("/")[2] for url in urls]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{count_text(len(names))} models ({', '.join(names[:2])}, …)"


def is_network(network: Any) -> bool:
    """Whether `network` is a SparkNetwork rather than a Keras model."""
    return all(hasattr(network, name) for name in ("spark", "model", "master", "save"))


def answered(work: Callable[[], Result], *, what: str, timeout_s: float) -> Result:
    """Run `work` on a daemon thread and return its result; a late one is dropped."""
    outcome: Future[Result] = Future()

    def main() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=main, name="sparkwright-store", daemon=True).start()
    if not wait([outcome], timeout_s).done:
        raise RunTimeoutError(
            f"{what}: the store must answer within {duration_text(timeout_s)}. Received: no "
            "answer. Check the host and the network, then retry. The store may still complete the "
            "operation."
        )
    return outcome.result()
