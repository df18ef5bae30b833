"""Convert a network to Python code, JSON or YAML, and read JSON and YAML."""

import re
from collections.abc import Callable

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkSpec

LONGEST_TEXT = 1_000_000  # characters; enough for thousands of layers

# Title and writer of each format, by file suffix.
FORMS: dict[str, tuple[str, Callable[[NetworkSpec], str]]] = {
    "py": ("Python code", NetworkSpec.to_code),
    "json": ("JSON", NetworkSpec.to_json),
    "yaml": ("YAML", NetworkSpec.to_yaml),
}
_CODE = re.compile(r"^\s*(import|from)\s+\w|^\s*\w+ = keras\.", flags=re.MULTILINE)


def read(text: str) -> NetworkSpec:
    """Read a network from JSON or YAML, without executing code."""
    if not text.strip():
        raise ConfigurationError("the text is empty. Paste a network's JSON or YAML.")
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
