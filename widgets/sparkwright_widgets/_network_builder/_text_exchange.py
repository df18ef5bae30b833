"""The network as text: Python code to copy; JSON and YAML to keep and to read back."""

import re
from collections.abc import Callable
from urllib.parse import quote

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkSpec
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, Dropdown, Textarea, alert, row

LONGEST_TEXT = 1_000_000  # characters; a network of thousands of layers is shorter

_CODE = re.compile(r"^\s*(import|from)\s+\w|^\s*\w+ = keras\.", flags=re.MULTILINE)


# Title, media type and writer of each way to write a network.
_FORMATS: dict[str, tuple[str, str, Callable[[NetworkSpec], str]]] = {
    "python": ("Python code", "text/x-python", NetworkSpec.to_code),
    "json": ("JSON", "application/json", NetworkSpec.to_json),
    "yaml": ("YAML", "application/yaml", NetworkSpec.to_yaml),
}


def read(text: str) -> NetworkSpec:
    """The network that a text describes in JSON or YAML; nothing in it is executed.

    Raises:
        ConfigurationError: if it describes none.
    """
    if not text.strip():
        raise ConfigurationError("there is no text. Paste a network's JSON or YAML.")
    if len(text) > LONGEST_TEXT:
        raise ConfigurationError(
            f"the text must have at most {LONGEST_TEXT} characters. Received: {len(text)}."
        )
    if text.lstrip().startswith("{"):
        return NetworkSpec.from_json(text)
    try:
        return NetworkSpec.from_yaml(text)
    except ConfigurationError:
        if _CODE.search(text):
            raise ConfigurationError(
                "the text must be JSON or YAML. Received: Python code. Run the code in a cell, and "
                "pass its model: `NetworkBuilder(model)`."
            ) from None
        raise


class TextExchange(widgets.VBox):
    """Shows a network as text. What a person writes stays until it is applied or dropped.

    Args:
        apply: called with the network that a text describes.
    """

    def __init__(self, apply: Callable[[NetworkSpec], None]) -> None:
        self._apply = apply
        self._spec: NetworkSpec | None = None
        self._own = ""  # the text that this wrote
        choices = [(title, key) for key, (title, _, _) in _FORMATS.items()]
        self.format = Dropdown(description="Written as", options=choices)
        self.text = Textarea(description="Network as text", rows=12, continuous_update=False)
        self.text.add_class("sparkwright-code")
        self.apply_button = Button(description="Apply this text")
        self.drop_button = Button(description="Show the network's own text again")
        self.link, self.alert = widgets.HTML(), widgets.HTML()
        self.format.observe(lambda _change: self._write(), "value")
        self.text.observe(lambda _change: self._edited(), "value")
        self.apply_button.on_click(lambda _button: self._applied())
        self.drop_button.on_click(lambda _button: self._write(drops=True))
        buttons = row(self.apply_button, self.drop_button)
        super().__init__([row(self.format, self.link), self.text, self.alert, buttons])
        self._edited()

    @property
    def is_edited(self) -> bool:
        """Whether the text is a person's own, not yet applied."""
        return self.text.value != self._own

    def show(self, spec: NetworkSpec) -> None:
        """Write another network, unless there is a person's text."""
        is_new, self._spec = spec != self._spec, spec
        if is_new:
            self._write()

    def _write(self, *, drops: bool = False) -> None:
        # A person's text stays as it is: it would be lost otherwise.
        if self.is_edited and not drops:
            return
        text, link, problem = "", "", ""
        chosen = str(self.format.value)
        if self._spec is not None:
            try:
                text = _FORMATS[chosen][2](self._spec)
                link = _download_link(text, self._spec.name, chosen)
            except ConfigurationError as error:
                problem = str(error)
        self._own = self.text.value = text
        self.link.value = link
        self._edited(problem)

    def _edited(self, problem: str = "") -> None:
        self.alert.value = alert(problem)
        self.drop_button.layout.display = None if self.is_edited else "none"

    def _applied(self) -> None:
        try:
            spec = read(self.text.value)
        except ConfigurationError as error:
            self.alert.value = alert(f"{error} The network is as it was.")
            return
        self._own = self.text.value  # it has been taken: what follows may replace it
        self._apply(spec)
        self._write()


def _download_link(text: str, name: str, chosen: str) -> str:
    """A link that saves `text` as a file; it carries the text itself and needs no server."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "network"
    file = f"{stem}.{'py' if chosen == 'python' else chosen}"
    return (
        f'<a class="sparkwright-download" download="{file}" '
        f'href="data:{_FORMATS[chosen][1]};charset=utf-8,{quote(text)}">'
        f"Download {escaped(file)}</a>"
    )
