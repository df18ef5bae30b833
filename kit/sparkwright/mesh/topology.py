"""Who is whose neighbor among the workers that exchange updates; pure.

The workers form a tree, so that an update takes one way to each of them. It is a function of the
ordered list of members alone: whoever knows the list knows the tree.
"""

from dataclasses import dataclass, field

from sparkwright.errors import ConfigurationError
from sparkwright.options import check_choice, check_count

MODES = ("plain", "mesh")
MAX_DOWNSTREAMS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """Where one worker can be reached.

    Attributes:
        worker: its number.
        host: address of its port.
        port: number of its port.
        attempt: of its task, and grows; each is an origin of updates of its own.
    """

    worker: int
    host: str
    port: int
    attempt: int = 0

    @property
    def origin(self) -> tuple[int, int]:
        """(worker, attempt)."""
        return self.worker, self.attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """A tree of workers.

    "plain" hangs all of them on the first. "mesh" fills the tree level by level in the order of
    `members`, `max_downstreams` below each, so 8,192 members are at most 5 steps from the first.

    Attributes:
        members: all workers, each once.
        mode: "plain" or "mesh".
        max_downstreams: below each worker, in "mesh" (default 8).

    Example:
        >>> tree = Topology(members=(4, 7, 9, 5), mode="mesh", max_downstreams=2)
        >>> tree.upstream(5), tree.downstreams(4), tree.neighbors(7), tree.depth
        (7, (7, 9), (4, 5), 2)
    """

    members: tuple[int, ...]
    mode: str
    max_downstreams: int = MAX_DOWNSTREAMS
    _places: dict[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse an unknown mode, a tree that cannot grow, and members named twice."""
        check_choice("mode", self.mode, MODES)
        check_count("max_downstreams", self.max_downstreams)
        places = {member: place for place, member in enumerate(self.members)}
        if len(places) != len(self.members):
            raise ConfigurationError(
                f"`members` must differ from one another. Received: members={self.members!r}."
            )
        object.__setattr__(self, "_places", places)

    @property
    def _breadth(self) -> int:
        return max(1, len(self.members)) if self.mode == "plain" else self.max_downstreams

    def upstream(self, member: int) -> int | None:
        """Whom `member` hangs on; None for the first."""
        place = self._places[member]
        return self.members[(place - 1) // self._breadth] if place else None

    def downstreams(self, member: int) -> tuple[int, ...]:
        """Who hangs on `member`."""
        first = self._places[member] * self._breadth + 1
        return self.members[first : first + self._breadth]

    def neighbors(self, member: int) -> tuple[int, ...]:
        """The upstream, if any, then the downstreams."""
        upstream = self.upstream(member)
        return (*(() if upstream is None else (upstream,)), *self.downstreams(member))

    @property
    def depth(self) -> int:
        """Steps from the first member to the farthest."""
        place, steps = len(self.members) - 1, 0
        while place > 0:
            place, steps = (place - 1) // self._breadth, steps + 1
        return steps
