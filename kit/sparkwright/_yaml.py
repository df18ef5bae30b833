"""Settings as YAML and JSON: one dialect for everything that is written and read."""

import functools
import json
import re
from typing import Any

from sparkwright.errors import ConfigurationError

# PyYAML follows YAML 1.1, in which 1e-3 is text: a number needs a point there.
_NUMBER = re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$")
_DATE = "tag:yaml.org,2002:timestamp"
_MOST_LEVELS = 100
_MOST_VALUES = 1_000_000
_REMEDY = "Check the text where it was written."
# What PyYAML raises where a value is not of the kind that its tag or its looks promise.
_MISREAD = (ValueError, LookupError, AttributeError, TypeError, RecursionError)


def read_yaml(text: str) -> Any:
    """What `text` holds: plain values only, no objects; dates stay text.

    Raises:
        ConfigurationError: if it is no YAML, nested too deeply, has a duplicate key, or holds
            itself; says where.

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
        # Before anything is made: the parser in C ends the process where YAML is nested deeply.
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
    r"""YAML of JSON-able values, which `read_yaml` reads back.

    Example:
        >>> write_yaml({"shape": [28, 28]}, short=True)
        'shape: [28, 28]\n'
    """
    import yaml

    # By way of JSON, because YAML does not know NumPy's floats, which are floats too.
    plain = json.loads(json.dumps(value))
    style = None if short else False
    return yaml.dump(plain, Dumper=_dialect("Dumper"), sort_keys=False, default_flow_style=style)


def read_json(text: str) -> Any:
    """What `text` holds.

    Raises:
        ConfigurationError: if it is no JSON, nested too deeply, or has a duplicate key.
    """
    try:
        found = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"the text must be JSON. Received: {error}. {_REMEDY}") from error
    return _unfolded(found, "JSON")


def strict_json(text: str | bytes) -> Any:
    """`json.loads` that refuses duplicate keys, of which it would keep the last.

    Raises:
        ValueError: naming the key; or if `text` is no JSON.

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
    """A copy in which each alias has a value of its own."""
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
    """PyYAML's safe "Loader" or "Dumper", that knows numbers as `_NUMBER` does."""
    import yaml

    # The one in C, where there is one, is ten times as fast.
    base = getattr(yaml, f"CSafe{kind}", None) or getattr(yaml, f"Safe{kind}")
    dialect: Any = type(kind, (base,), {})
    dialect.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+0123456789"))
    if kind == "Loader":
        dialect.construct_mapping = _construct_mapping
        # No setting is a date; the writer still puts text that looks like one into quotes.
        dialect.yaml_implicit_resolvers = {
            first: [(tag, rule) for tag, rule in rules if tag != _DATE]
            for first, rules in dialect.yaml_implicit_resolvers.items()
        }
    return dialect


def _construct_mapping(loader: Any, node: Any, deep: bool = False) -> Any:
    """Refuse duplicate keys, of which PyYAML would keep the last."""
    import yaml

    seen: set[Any] = set()
    # Before keys that `<<` merges are added: these may be overridden.
    for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if not isinstance(key_node, yaml.ScalarNode):
            continue  # refused below: a list or mapping is no key
        key = (key_node.tag, key_node.value)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"duplicate key {key_node.value!r}", key_node.start_mark
            )
        seen.add(key)
    return yaml.constructor.SafeConstructor.construct_mapping(loader, node, deep)
