"""What Hadoop's configuration files say of a cluster; pure."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from sparkwright.errors import ConfigurationError

_PORT = 8032
_VARIABLE = re.compile(r"\$\{([\w.-]+)\}")
_MOST_SUBSTITUTIONS = 20  # Hadoop's own limit, against circles
_MANAGER = "yarn.resourcemanager"


def parse_hadoop_settings(text: str, *, name: str) -> dict[str, str]:
    """Settings of one file such as yarn-site.xml, by name.

    Args:
        text: of the file.
        name: of the file, for the message.

    Raises:
        ConfigurationError: if it is no XML.

    Example:
        >>> xml = "<configuration><property><name>a</name><value> 1 </value></property>"
        >>> parse_hadoop_settings(xml + "</configuration>", name="core-site.xml")
        {'a': '1'}
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ConfigurationError(
            f"Hadoop's configuration must be XML. Received: {name}: {error}. Copy the file from "
            "the cluster again."
        ) from None
    found = ((one.findtext("name"), one.findtext("value")) for one in root.iter("property"))
    return {key.strip(): (value or "").strip() for key, value in found if key}


def setting(settings: Mapping[str, str], name: str) -> str | None:
    """A setting whose `${…}` are filled in from the others; None if it, or one of these, is unset.

    Example:
        >>> setting({"a": "${host}:1", "host": "me"}, "a")
        'me:1'
    """
    text = settings.get(name)
    for _ in range(_MOST_SUBSTITUTIONS):
        if text is None or not (found := _VARIABLE.search(text)):
            return text or None
        inner = settings.get(found[1])
        text = None if inner is None else text.replace(found[0], inner)
    return None


def manager_addresses(settings: Mapping[str, str]) -> list[tuple[str, int]]:
    """Host and port of each ResourceManager that applications may be handed to.

    Several where they stand in for one another. Without any setting it is this machine.

    Args:
        settings: of yarn-site.xml, and `spark.hadoop.…` over them.

    Example:
        >>> manager_addresses({"yarn.resourcemanager.hostname": "head"})
        [('head', 8032)]
    """
    if setting(settings, f"{_MANAGER}.ha.enabled") == "true":
        names = [
            f".{one.strip()}" for one in (settings.get(f"{_MANAGER}.ha.rm-ids") or "").split(",")
        ]
    else:
        names = [""]
    return [_address(settings, name) for name in names]


def _address(settings: Mapping[str, str], name: str) -> tuple[str, int]:
    host = setting(settings, f"{_MANAGER}.hostname{name}")
    text = setting(settings, f"{_MANAGER}.address{name}") or f"{host or '0.0.0.0'}:{_PORT}"
    found, _, port = text.rpartition(":")
    if not port.isdigit():
        found, port = text, str(_PORT)
    # That is where clients of a machine's own ResourceManager connect to, by Hadoop's default.
    return ("127.0.0.1" if found == "0.0.0.0" else found), int(port)
