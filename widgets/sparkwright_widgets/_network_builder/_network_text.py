"""A network as text: Python code to copy; JSON and YAML to keep and to read back."""

import re
from collections.abc import Callable

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkSpec

LONGEST_TEXT = 1_000_000  # characters; a network of thousands of layers is shorter

# Title and writer of each form, named by the suffix of its files.
FORMS: dict[str, tuple[str, Callable[[NetworkSpec], str]]] = {
    "py": ("Python code", NetworkSpec.to_code),
    "json": ("JSON", NetworkSpec.to_json),
    "yaml": ("YAML", NetworkSpec.to_yaml),
}
_CODE = re.compile(r"^\s*(import|from)\s+\w|^\s*\w+ = keras\.", flags=re.MULTILINE)


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
