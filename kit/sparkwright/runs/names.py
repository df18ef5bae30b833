"""Readable names of runs, such as "brisk-heron"."""

import random
import threading
from collections.abc import Collection, Iterable

from sparkwright.errors import ConfigurationError

MAX_LENGTH = 80
# Drawn names: random numbers of the operating system, which the seeds of a training leave alone.
_RANDOM = random.SystemRandom()
_DRAWS = 100
_ADJECTIVES = (
    "amber ample azure bold brave bright brisk bronze calm clear coral crisp deep eager early even "
    "fair fast fine firm fresh gentle gilded glad golden grand green hardy hazel ivory jade keen "
    "kind lively lucid lunar mellow merry mild modest neat nimble noble olive opal pale patient "
    "plain polar proud quick quiet rapid ready rosy ruby rustic sable scarlet serene sharp silver "
    "sleek smooth snowy solar solid spry stable steady still sunny swift tidal tidy upbeat vivid "
    "warm wise witty young"
)
_NOUNS = (
    "alder aspen badger beaver birch bison brook canyon cedar cove crane cricket curlew delta dove "
    "dune egret elm falcon fern finch fjord forest fox gannet geyser glacier grove gull harbor "
    "hare hawk heath heron hill ibis island juniper kestrel lagoon lake lark linnet lynx maple "
    "marsh marten meadow mesa moose moth oak orca osprey otter owl panda petrel pine plover pond "
    "puffin quail raven reef ridge river robin salmon seal spruce stork summit swan thrush tundra "
    "valley walrus willow wren"
)


def draw_name(rng: random.Random, taken: Collection[str] = ()) -> str:
    """Return an adjective and a noun, such as "brisk-heron", that are not in `taken`.

    Example:
        >>> draw_name(random.Random(0))
        'proud-osprey'
    """
    name = ""
    for _ in range(_DRAWS):
        name = f"{rng.choice(_ADJECTIVES.split())}-{rng.choice(_NOUNS.split())}"
        if name not in taken:
            return name
    return numbered(name, taken)


def numbered(name: str, taken: Collection[str]) -> str:
    """Return `name`, with a number added if it is in `taken`.

    Example:
        >>> numbered("lenet", {"lenet", "lenet-2"})
        'lenet-3'
    """
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found


def check_name(name: str | None) -> None:
    """Raise unless `name` is None or one short line of text.

    Raises:
        ConfigurationError: if it is not.
    """
    if name is not None and not (
        isinstance(name, str)
        and 0 < len(name.strip()) <= len(name) <= MAX_LENGTH
        and name.isprintable()
    ):
        raise ConfigurationError(
            f"`name` must be None or one line of 1 to {MAX_LENGTH} characters. Received: "
            f"name={name!r:.200}."
        )


class RunNames:
    """The names in use; those of this process are in `NAMES`."""

    def __init__(self) -> None:
        """Begin with none."""
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def take(self, wanted: str | None = None) -> str:
        """Return a name that is not in use, and reserve it.

        Args:
            wanted: the user's; a number is added if it is in use. Default None: a drawn one.
        """
        with self._lock:
            taken = self._taken
            name = draw_name(_RANDOM, taken) if wanted is None else numbered(wanted, taken)
            taken.add(name)
            return name

    def reserve(self, names: Iterable[str]) -> None:
        """Mark names as in use, such as those of a store of earlier runs."""
        with self._lock:
            self._taken.update(names)


NAMES = RunNames()
