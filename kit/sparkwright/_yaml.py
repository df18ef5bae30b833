"""Read and write settings as YAML and JSON, in one dialect."""

import functools
import json
import re
from typing import Any

from sparkwright.errors import ConfigurationError

# PyYAML follows YAML 1.1, which reads 1e-3 as text because it has no decimal point.
_NUMBER = re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$")
_DATE = "tag:yaml.org,2002:timestamp"
_MOST_LEVELS = 100
_MOST_VALUES = 1_000_000
_REMEDY = "Check the text where it was written."
# Exceptions that PyYAML raises if a value does not match its explicit or detected type.
_MISREAD = (ValueError, LookupError, AttributeError, TypeError, RecursionError)


def read_yaml(text: str) -> Any:
    """Parse YAML into plain values without objects; dates remain text.

    Raises:
        ConfigurationError: if `text` is invalid YAML, is nested too deeply, or has a duplicate key
            or a recursive alias; includes the position.

    Example:
        >>> read_yaml("threshold: 1e-3")
        {'threshold': 0.001}
        >>> read_yaml("name: 2020-13-45")
        {'name': '2020-13-45'}
    """
    import yaml

    loader = _dialect("Loader")
    try:
        levels = 0
        # Check first: the C parser crashes the process if YAML is nested too deeply.
        for event in yaml.parse(text, Loader=loader):
            levels += isinstance(event, yaml.CollectionStartEvent)
            levels -= isinstance(event, yaml.CollectionEndEvent)
            if levels > _MOST_LEVELS:
                raise _too_large("YAML")
        found = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, *_MISREAD) as error:
        raise ConfigurationError(f"the text must be YAML. Received: {error}. {_REMEDY}") from error
    return _unfolded(found, "YAML")


def write_yaml(value: Any, *, short: bool = False) -> str:
    r"""Return JSON-serializable values as YAML for `read_yaml`.

    Example:
        >>> write_yaml({"shape": [28, 28]}, short=True)
        'shape: [28, 28]\n'
    """
    import yaml

    # Convert to JSON first, because PyYAML does not support NumPy floats.
    plain = json.loads(json.dumps(value))
    style = None if short else False
    return yaml.dump(plain, Dumper=_dialect("Dumper"), sort_keys=False, default_flow_style=style)


def read_json(text: str) -> Any:
    """Parse JSON.

    Raises:
        ConfigurationError: if `text` is invalid JSON, is nested too deeply, or has a duplicate key.
    """
    try:
        found = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the text must be JSON. Received: {error}. {_REMEDY}") from error
    return _unfolded(found, "JSON")


def strict_json(text: str | bytes) -> Any:
    """Parse JSON, but reject duplicate keys, unlike `json.loads`.

    Raises:
        ValueError: naming the duplicate key; or if `text` is invalid JSON.

    Example:
        >>> strict_json('{"workers": 4, "workers": 2}')
        Traceback (most recent call last):
        ValueError: duplicate key 'workers'
    """
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate key {next(key for key in keys if keys.count(key) > 1)!r}")
    return found


def _unfolded(value: Any, form: str) -> Any:
    """Return a copy in which each alias has a separate value."""
    count = 0

    def copied(inner: Any, level: int) -> Any:
        nonlocal count
        count += 1
        if level > _MOST_LEVELS or count > _MOST_VALUES:
            raise _too_large(form)
        if isinstance(inner, dict):
            mapping: dict[Any, Any] = inner
            return {key: copied(each, level + 1) for key, each in mapping.items()}
        if isinstance(inner, list):
            items: list[Any] = inner
            return [copied(each, level + 1) for each in items]
        return inner

    return copied(value, 0)


def _too_large(form: str) -> ConfigurationError:
    return ConfigurationError(
        f"the text must be {form} of at most {_MOST_LEVELS} levels and {_MOST_VALUES:,} values. "
        "Received: more, or a value that holds itself. Write it with fewer."
    )


@functools.cache
def _dialect(kind: str) -> Any:
    """Return PyYAML's safe "Loader" or "Dumper", extended to match numbers by `_NUMBER`."""
    import yaml

    # The C implementation, if available, is ten times as fast.
    base = getattr(yaml, f"CSafe{kind}", None) or getattr(yaml, f"Safe{kind}")
    dialect: Any = type(kind, (base,), {})
    dialect.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+0123456789"))
    if kind == "Loader":
        dialect.construct_mapping = _construct_mapping
        # Settings contain no dates; the writer still quotes text that resembles a date.
        dialect.yaml_implicit_resolvers = {
            first: [(tag, rule) for tag, rule in rules if tag != _DATE]
            for first, rules in dialect.yaml_implicit_resolvers.items()
        }
    return dialect


def _construct_mapping(loader: Any, node: Any, deep: bool = False) -> Any:
    """Reject duplicate keys; PyYAML keeps the last one."""
    import yaml

    seen: set[Any] = set()
    # Before merging `<<` keys, because these may be overridden.
    for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if not isinstance(key_node, yaml.ScalarNode):
            continue  # rejected below: lists and mappings are invalid keys
        key = (key_node.tag, key_node.value)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"duplicate key {key_node.value!r}", key_node.start_mark
            )
        seen.add(key)
    return yaml.constructor.SafeConstructor.construct_mapping(loader, node, deep)
