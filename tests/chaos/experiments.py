"""What chaos experiments there are: a seed decides all of one; pure."""

import random
from dataclasses import dataclass
from typing import Literal, get_args

Master = Literal["averaging", "sharing", "spark"]
Victim = Literal[
    "trainer",
    "python worker",
    "executor",
    "driver",
    "clock of a host",
    "network",
    "disk",
    "session",
    "callback",
    "example",
    "second run",
    "descriptors",
    "connect server",
]
Moment = Literal[
    "start", "first second", "validation", "checkpoint", "epoch end", "final delivery", "stop"
]

MOMENTS = get_args(Moment)
FAULTS = {
    "trainer": ("kill", "pause"),
    "python worker": ("kill", "pause"),
    "executor": ("kill", "pause"),
    "driver": ("pause", "hold the GIL", "kill"),
    "clock of a host": ("jump",),
    "network": ("cut", "cut one way", "slow"),
    "disk": ("fill", "fill temporary files", "fill the driver's"),
    "session": ("stop", "kill the JVM"),
    "callback": ("wait for the run", "evaluate"),
    "example": ("kill each process",),
    "second run": ("start",),
    "descriptors": ("use up",),
    "connect server": ("kill", "restart", "pause"),
}
# After these no run can go on.
HOPELESS = ("session", "callback", "example", "connect server")
# Those that need hosts of their own come from the second list.
_PROCESSES = (
    *("trainer", "trainer", "python worker", "executor"),
    *("executor", "driver", "clock of a host"),
    *("session", "callback", "example", "second run", "descriptors"),
    "connect server",
)
_HOSTS = ("network", "network", "disk", "executor", "trainer")
# Shorter and longer than `PEER_TIMEOUT_S`.
_PAUSES_S = (1.0, 6.0)
_GRACES_S = (0.2, 2.0, 30.0)
PEER_TIMEOUT_S = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """A fault that strikes a run at a moment."""

    seed: int = -1  # that it was drawn from; -1: it was written down
    master: Master = "averaging"  # of the run; "spark" averages with `communication="spark"`
    victim: Victim = "trainer"
    fault: str = "kill"  # what happens to the victim
    moment: Moment = "first second"
    worker: int = 0  # whose trainer, Python worker, executor or host is struck, from 0
    jitter_s: float = 0.0  # how long after the moment the fault strikes
    pause_s: float = 6.0  # how long a pause or a cut lasts
    grace_s: float = 2.0  # the run's `replacement_grace_s`
    delay: int = 0  # minibatches that workers of an averaging run train while they average
    by_driver: bool = False  # whether workers reach one another by way of the driver only
    joining: int = 0  # how many of the workers hold no data, and join and leave
    hopeless: bool = False  # whether no run could go on after this fault; it must fail
    second: Victim | None = None  # whose process is killed as well, of the next worker

    def __str__(self):
        number = "" if self.seed < 0 else f"{self.seed} "
        way = " by way of the driver" if self.by_driver else ""
        delay = f", delay {self.delay}" if self.delay else ""
        joining = f", {self.joining} joining" if self.joining else ""
        run = f"{number}{self.master}{way}{delay}{joining}"
        second = f" and {self.second}, kill" if self.second else ""
        return f"{run}: {self.victim}, {self.fault}{second}, {self.moment}"


def draw(seed, *, hosts=False, workers=3):
    """The experiment of a seed; `hosts`: executors have hosts whose network and disk can fail."""
    chance = random.Random(f"{seed} {hosts}")
    # In turn, so that a few seeds already cover all of them.
    master = ("averaging", "sharing", "averaging", "sharing", "spark")[seed % 5]
    victims = _HOSTS if hosts else _PROCESSES
    victim = victims[seed % len(victims)]
    fault = chance.choice(FAULTS[victim])
    moment = chance.choice(MOMENTS)
    if victim == "descriptors" and moment == "start":  # the run does not begin, and says why
        moment = "first second"
    spread_s = {"start": 1.5, "first second": 0.9}.get(moment, 0.1)
    return Experiment(
        seed=seed,
        master=master,
        victim=victim,
        fault=fault,
        moment=moment,
        worker=chance.randrange(workers),
        jitter_s=round(chance.uniform(0, spread_s), 3),
        pause_s=chance.choice(_PAUSES_S),
        grace_s=chance.choice(_GRACES_S),
        delay=chance.choice((0, 1, 2)) if master == "averaging" else 0,
        # Last, so that a seed's fault is the one that it was.
        by_driver=master != "spark" and chance.random() < 0.3,
        joining=chance.choice((0, 0, 1, 2)) if master != "spark" else 0,
        hopeless=victim in HOPELESS and fault != "pause",
        second="trainer" if victim in ("trainer", "executor") and chance.random() < 0.3 else None,
    )
