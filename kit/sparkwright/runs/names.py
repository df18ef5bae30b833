"""Readable names of runs, such as "brisk-heron"."""

import random
import threading
from collections.abc import Collection, Iterable

from sparkwright.errors import ConfigurationError

MAX_LENGTH = 80
# Of the operating system: the seeds of a training neither fix its name nor are used up by it.
_RANDOM = random.SystemRandom()
_ADJECTIVES = (
    "amber azure bold brave bright brisk bronze calm clear coral crisp deep eager early fair fast "
    "fine firm fresh gentle glad golden grand green hardy hazel ivory jade keen kind lively lucid "
    "lunar mellow merry mild neat nimble noble olive opal patient plain polar proud quick quiet "
    "rapid ready rosy ruby rustic sable serene sharp silver sleek smooth snowy solar solid spry "
    "steady still sunny swift tidal tidy upbeat vivid warm wise witty young"
)
_NOUNS = (
    "alder aspen badger beaver birch bison brook canyon cedar cove crane cricket curlew delta dove "
    "dune egret elm falcon fern finch fjord forest fox geyser glacier grove gull harbor hare hawk "
    "heath heron hill ibis island juniper kestrel lagoon lake lark lynx maple marsh marten meadow "
    "mesa moose oak orca osprey otter owl panda petrel pine plover pond puffin quail raven reef "
    "ridge river robin salmon seal spruce stork summit swan thrush tundra valley walrus wren"
)


def name_for(wanted: str | None, taken: Collection[str], rng: random.Random) -> str:
    """Return `wanted`, or a drawn name, with a number if it is in `taken`.

    Example:
        >>> name_for(None, {"lenet"}, random.Random(0)), name_for("lenet", {"lenet"}, random)
        ('rosy-panda', 'lenet-2')
    """
    name = wanted or f"{rng.choice(_ADJECTIVES.split())}-{rng.choice(_NOUNS.split())}"
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found


def check_name(name: str | None) -> None:
    """Raise a ConfigurationError unless `name` is None or one short line of text."""
    if name is not None and not (
        isinstance(name, str) and len(name) <= MAX_LENGTH and name.strip() and name.isprintable()
    ):
        raise ConfigurationError(
            f"`name` must be None or one line of 1 to {MAX_LENGTH} characters. Received: "
            f"name={name!r:.200}."
        )


class RunNames:
    """The names in use; those of this process are in `NAMES`."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def take(self, wanted: str | None = None) -> str:
        """Return a name that is not in use, and reserve it; by default one that is drawn."""
        with self._lock:
            name = name_for(wanted, self._taken, _RANDOM)
            self._taken.add(name)
            return name

    def reserve(self, names: Iterable[str]) -> None:
        """Mark names as in use, such as those of a store of earlier runs."""
        with self._lock:
            self._taken.update(names)


NAMES = RunNames()
