"""A network as text: Python code to copy; JSON and YAML to keep and to read back. Pure."""

import re
from dataclasses import dataclass
from urllib.parse import quote

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkSpec
from sparkwright_widgets._format import escaped

LONGEST_TEXT = 1_000_000  # characters; a network of thousands of layers is shorter

_CODE = re.compile(r"^\s*(import|from)\s+\w|^\s*\w+ = keras\.", flags=re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFormat:
    """One way to write a network.

    Attributes:
        name: as a person says it.
        suffix: of a file's name.
        media_type: of a download.
    """

    name: str
    suffix: str
    media_type: str


FORMATS = {
    "python": TextFormat(name="Python code", suffix="py", media_type="text/x-python"),
    "json": TextFormat(name="JSON", suffix="json", media_type="application/json"),
    "yaml": TextFormat(name="YAML", suffix="yaml", media_type="application/yaml"),
}


def written(spec: NetworkSpec, key: str) -> str:
    """`spec` in one of `FORMATS`.

    Raises:
        ConfigurationError: if it cannot be written so; a network with mistakes has no code.
    """
    match key:
        case "json":
            return spec.to_json()
        case "yaml":
            return spec.to_yaml()
        case _:
            return spec.to_code()


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


def download_link(text: str, *, name: str, key: str) -> str:
    """A link that saves `text` as a file; it carries the text itself and needs no server."""
    form = FORMATS[key]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "network"
    file = f"{stem}.{form.suffix}"
    return (
        f'<a class="sparkwright-download" download="{file}" '
        f'href="data:{form.media_type};charset=utf-8,{quote(text)}">Download {escaped(file)}</a>'
    )
