"""Readable names of runs, such as "brisk-heron"."""

import itertools
import random
import threading
from collections.abc import Iterable

from sparkwright.errors import ConfigurationError

MAX_LENGTH = 80
# Independent of the seeds that training uses.
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
    """The set of names in use; `NAMES` is that of this process."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def take(self, wanted: str | None = None) -> str:
        """Reserve and return a name, random by default; a number is appended if it is in use."""
        name = wanted or f"{_RANDOM.choice(_ADJECTIVES.split())}-{_RANDOM.choice(_NOUNS.split())}"
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        with self._lock:
            found = name
            while found in self._taken:
                found = next(numbered)
            self._taken.add(found)
            return found

    def reserve(self, names: Iterable[str]) -> None:
        """Mark names as in use, such as those in a store of earlier runs."""
        with self._lock:
            self._taken.update(names)


NAMES = RunNames()
