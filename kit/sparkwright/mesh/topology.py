"""The tree of workers that exchange updates; pure.

In a tree there is exactly one path for an update to each worker. The tree depends only on the
ordered list of members.
"""

from dataclasses import dataclass, field

from sparkwright.errors import ConfigurationError
from sparkwright.options import check_choice, check_count

MODES = ("plain", "mesh")
MAX_DOWNSTREAMS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """The network address of one worker."""

    worker: int
    host: str
    port: int
    attempt: int = 0  # of its task, increasing; each attempt is a separate origin

    @property
    def origin(self) -> tuple[int, int]:
        """(worker, attempt)."""
        return self.worker, self.attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """A tree of workers.

    "plain" makes all workers children of the first. "mesh" fills the tree level by level in the
    order of `members`, with `max_downstreams` children each, so 8,192 members have depth 5.

    Example:
        >>> tree = Topology(members=(4, 7, 9, 5), mode="mesh", max_downstreams=2)
        >>> tree.upstream(5), tree.downstreams(4), tree.neighbors(7)
        (7, (7, 9), (4, 5))
    """

    members: tuple[int, ...]  # each once
    mode: str  # "plain" or "mesh"
    max_downstreams: int = MAX_DOWNSTREAMS  # of each worker in "mesh"
    _places: dict[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the mode, `max_downstreams` and that members are unique."""
        check_choice("mode", self.mode, MODES)
        check_count("max_downstreams", self.max_downstreams)
        places = {member: place for place, member in enumerate(self.members)}
        if len(places) != len(self.members):
            raise ConfigurationError(
                f"`members` must be unique. Received: members={self.members!r}."
            )
        object.__setattr__(self, "_places", places)

    @property
    def _breadth(self) -> int:
        return max(1, len(self.members)) if self.mode == "plain" else self.max_downstreams

    def upstream(self, member: int) -> int | None:
        """Return the parent of `member`; None for the first member."""
        place = self._places[member]
        return self.members[(place - 1) // self._breadth] if place else None

    def downstreams(self, member: int) -> tuple[int, ...]:
        """Return the children of `member`."""
        first = self._places[member] * self._breadth + 1
        return self.members[first : first + self._breadth]

    def neighbors(self, member: int) -> tuple[int, ...]:
        """Return the parent, if any, then the children."""
        upstream = self.upstream(member)
        return (*(() if upstream is None else (upstream,)), *self.downstreams(member))
