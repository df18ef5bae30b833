"""ModelStore: list, save, load, compare, check and delete models in a folder at any URL."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.storage import ModelInfo
from sparkwright.storage.files import join
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import duration_text, escaped
from sparkwright_widgets._ui import Checkbox, Confirmation, Part, Text, field, hint, row

from ._catalog import MOST_COMPARED, Catalog, details, file_name, still_block, why_disabled
from ._comparing import compared_html
from ._operations import Operations, answered, check_all, delete_all, is_network, several
from ._pieces import ModelRows, SaveForm

# Timeout factor of operations that transfer whole files.
_WHOLE_FILE_FACTOR = 40
_KEPT = "Nothing was changed."


class ModelStore(Part):
    """Saves, loads, lists, compares, checks and deletes models in a folder.

    The storage is accessed only when a button is pressed. Operations time out with an error.

    Args:
        network: a `SparkNetwork` or a Keras model to save; default None: set `network` later.
        url: the folder, a path or any URL; default "models".
        timeout_s: timeout of an operation in seconds; default 30. Loading, saving and checking a
            file may take 40 times as long.
        loader: maps the URL of a model to a network, on a background thread; default None: load a
            network of the type of `network`, or a Keras model if it is None.
    """

    def __init__(
        self,
        network: Any = None,
        *,
        url: str = "models",
        timeout_s: float = 30.0,
        loader: Callable[[str], Any] | None = None,
    ) -> None:
        if not timeout_s > 0:
            raise ConfigurationError(
                f"`timeout_s` must be greater than 0. Received: timeout_s={timeout_s!r}."
            )
        super().__init__("Models", styles=("model_store.css",))
        self._network: Any = network
        self._metrics: Any = {}
        self._url, self._timeout_s = url, timeout_s
        self._loader = loader
        self._operations = Operations()
        self._enabling = threading.RLock()
        self._load_listeners: list[Callable[[Any], None]] = []
        self._listed = False
        self._compared: tuple[ModelInfo, ...] = ()
        self.url_field = Text(value=url, description="Folder (path or URL)")
        self.recursive_field = Checkbox(value=False, description="Include subfolders")
        self.list_button = self.new_button("List models", self.refresh)
        self.save_button = self.new_button("Save", self.save)
        self.load_button = self.new_button("Load", lambda: self.load(self.ticked[0].url))
        self.compare_button = self.new_button("Compare", self.compare)
        self.check_button = self.new_button("Check", lambda: self.verify(_urls(self.ticked)))
        self.delete_button = self.new_button("Delete …", self._ask_to_delete)
        self.outcome, self.hint = widgets.HTML(), widgets.HTML()
        self.replacing = Confirmation(self.guarded, lambda: self._report(_KEPT, saving=True))
        self.deleting = Confirmation(self.guarded, lambda: self._report(_KEPT))
        self.form = SaveForm(self.save_button, self.replacing)
        self.differences_field = Checkbox(value=True, description="Only differences")
        self.comparison = widgets.HTML()
        self._actions = row(
            self.load_button, self.compare_button, self.check_button, self.delete_button
        )
        self.rows = ModelRows(self.guarded, self._enable)
        self.url_field.observe(self.guarded(self._url_typed), "value")
        self.differences_field.observe(self.guarded(self._draw_comparison), "value")
        self.show(
            field(self.url_field, wide=True),
            row(self.list_button, self.recursive_field),
            self.form,
            self.rows,
            self._actions,
            self.hint,
            self.deleting,
            self.outcome,
            self.differences_field,
            self.comparison,
        )
        self._use(url)

    # --- value

    @property
    def url(self) -> str:
        """The URL of the folder."""
        return self._url

    @url.setter
    def url(self, url: str) -> None:
        if url.strip() == self._url:
            return
        self._use(url)
        self.url_field.value = self._url
        self._changed()

    @property
    def network(self) -> Any:
        """The network to save, a SparkNetwork or a Keras model; loading a model replaces it."""
        return self._network

    @network.setter
    def network(self, network: Any) -> None:
        if network is self._network:
            return
        self._network = network
        self._enable()
        self._changed()

    @property
    def metrics(self) -> Any:
        """Metrics to save with the model: a dict by name, or an evaluation."""
        return self._metrics

    @metrics.setter
    def metrics(self, metrics: Any) -> None:
        self._metrics = metrics
        self._enable()

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The models of the last listing."""
        return self.rows.catalog.models

    @property
    def ticked(self) -> tuple[ModelInfo, ...]:
        """The selected models, in the order of the listing."""
        return self.rows.ticked

    def on_load(self, callback: Callable[[Any], None]) -> None:
        """Call `callback(network)` on a background thread when a model has been loaded."""
        self._load_listeners.append(callback)

    # --- actions; they run in the background and return False if the store is busy

    def refresh(self) -> bool:
        """List the models of the folder."""
        return self._list()

    def save(self, name: str | None = None, *, overwrite: bool = False) -> bool:
        """Save the network with the options of the form.

        Args:
            name: file name; default None: the name in the form.
            overwrite: replace an existing file without asking; default False.

        Raises:
            ConfigurationError: if there is no network, or the name is invalid.
        """
        network = self._network
        if network is None:
            raise ConfigurationError(
                "saving needs a network. Received: network=None. Set `store.network`."
            )
        given = self.form.name_field.value if name is None else name
        url = join(self._url, file_name(given.strip() or self._default_name()))
        return self._save(network, url, self._metrics, overwrite=overwrite)

    def _save(self, network: Any, url: str, metrics: Any, *, overwrite: bool) -> bool:
        settings = {**self.form.settings, "metrics": metrics}

        def work() -> ModelInfo | None:
            there = None if overwrite else self._operations.there(url)
            if there is None:
                self._operations.save(network, url, settings)
            return there

        def then(there: ModelInfo | None) -> None:
            if there is None:
                self._report(f"✓ Saved to {url}.", saving=True)
                self._list_again(url)
                return
            self.replacing.ask(
                f"There is a file at {url} already: {details(there)}. Replace it?",
                yes="Replace it",
                no="Keep it",
                # Save to the URL in the question, even if folder or name have changed since.
                then=lambda: self._save(network, url, metrics, overwrite=True),
                button=self.save_button,
            )

        return self._ask(f"Saving to {url}", work, then, whole_files=1)

    def load(self, url: str) -> bool:
        """Load a model, set `network` to it, and call the `on_load` callbacks."""

        def then(loaded: Any) -> None:
            self._network = loaded
            self._report(f"✓ Loaded {url}.")
            self._changed()
            for callback in list(self._load_listeners):
                callback(loaded)

        work = partial(self._loader or partial(self._operations.load, self._network), url)
        return self._ask(f"Loading {url}", work, then, whole_files=1)

    def compare(self, infos: Sequence[ModelInfo] | None = None) -> None:
        """Show models side by side.

        Args:
            infos: two to six models; default None: the selected models.
        """
        self._compared = tuple(self.ticked if infos is None else infos)[:MOST_COMPARED]
        self._draw_comparison()

    def verify(self, urls: Sequence[str]) -> bool:
        """Read models completely and compare them with their checksums."""

        def then(found: list[str]) -> None:
            self._report(*found)

        work = partial(check_all, self._operations, urls)
        return self._ask(f"Checking {several(urls)}", work, then, whole_files=len(urls))

    def delete(self, urls: Sequence[str]) -> bool:
        """Delete models without confirmation; the button asks for one."""

        def then(found: list[str]) -> None:
            self._report(*found)
            self.rows.untick(urls)
            self._list_again(*urls)

        work = partial(delete_all, self._operations, urls)
        return self._ask(f"Deleting {several(urls)}", work, then)

    # --- events

    def _url_typed(self, change: Any) -> None:
        if change["new"].strip() == self._url:
            return
        self._use(change["new"])
        self._changed()

    def _use(self, url: str) -> None:
        self._url, self._listed, self._compared = url.strip(), False, ()
        self.deleting.clear()  # messages and questions that name a URL stay
        self.rows.show(Catalog(folder_url=self._url))
        self._draw_comparison()

    def _ask_to_delete(self) -> None:
        urls = _urls(self.ticked)
        self._clear_messages()
        self.deleting.ask(
            f"Delete {several(urls)} from {self._url}? This cannot be undone.",
            yes="Delete permanently",
            no="Keep",
            then=lambda: self.delete(urls),
            button=self.delete_button,
        )

    def _clear_messages(self) -> None:
        self.outcome.value = self.form.outcome.value = ""
        self.replacing.clear()
        self.deleting.clear()

    # --- background operations

    def _ask(
        self,
        what: str,
        work: Callable[[], Any],
        then: Callable[[Any], None],
        *,
        whole_files: int = 0,
        keep_messages: bool = False,
    ) -> bool:
        limit_s = self._timeout_s * (1 + _WHOLE_FILE_FACTOR * whole_files)
        if not keep_messages:
            self._clear_messages()
        begun = self.in_background(
            f"{what} (times out after {duration_text(limit_s)})",
            partial(answered, work, what=what, timeout_s=limit_s),
            then,
            finally_=self._enable,
        )
        self._enable()
        return begun

    def _list(self, *, keep_messages: bool = False) -> bool:
        work = partial(self._operations.list, self._url, recursive=self.recursive_field.value)
        url = self._url

        def then(listing: Any) -> None:
            if url == self._url:  # else the folder has changed
                self._show_listing(listing)

        return self._ask(f"Listing {url}", work, then, keep_messages=keep_messages)

    def _list_again(self, *urls: str) -> None:
        """List again after a change of `urls`, keeping its messages."""
        if any(url.startswith(join(self._url, "")) for url in urls):
            self._list(keep_messages=True)

    def _show_listing(self, listing: Any) -> None:
        self._listed, self._compared = True, ()
        self.rows.show(replace(self.rows.catalog, models=tuple(listing)))
        self._draw_comparison()

    # --- drawing

    def _report(self, *sentences: str, saving: bool = False) -> None:
        """Show the outcome near the pressed button."""
        (self.form.outcome if saving else self.outcome).value = "".join(
            f'<div role="status">{escaped(sentence)}</div>' for sentence in sentences
        )

    def _enable(self) -> None:
        """Enable or disable the buttons, and show the reason."""
        with self._enabling:  # several threads call this; the last one must win
            self._enable_now()

    def _enable_now(self) -> None:
        busy, ticked = self._background.busy, self.ticked
        self.list_button.disabled = busy or not self._url
        self.save_button.disabled = busy or not self._url or self._network is None
        self.load_button.disabled = busy or len(ticked) != 1 or ticked[0].problem is not None
        self.compare_button.disabled = not 2 <= len(ticked) <= MOST_COMPARED
        self.check_button.disabled = self.delete_button.disabled = busy or not ticked
        self.form.name_field.placeholder = self._default_name()
        self._actions.layout.display = None if self.models else "none"
        self.hint.value = hint(why_disabled(self.rows.catalog, ticked, listed=self._listed))
        self.form.describe(self._network, self._metrics, of_spark=is_network(self._network))

    def _default_name(self) -> str:
        """The name of the model if it is a valid file name, else "model"."""
        model = self._network.model if is_network(self._network) else self._network
        name = str(getattr(model, "name", None) or "model")
        return (
            name
            if name[0].isalnum() and name.replace("_", "").replace("-", "").isalnum()
            else "model"
        )

    def _draw_comparison(self, _change: Any = None) -> None:
        infos, differences = self._compared, self.differences_field
        differences.layout.display = None if infos else "none"
        names = [self.rows.catalog.name_of(info) for info in infos]
        self.comparison.value = (
            compared_html(infos, names, only_differences=differences.value) if infos else ""
        )

    def _still(self) -> Block | None:
        if not self._listed:
            return None
        style = asset("model_store.css")
        return still_block(self.rows.catalog, self.comparison.value, style=style)


def _urls(infos: Sequence[ModelInfo]) -> list[str]:
    return [info.url for info in infos]
