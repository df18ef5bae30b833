"""Memory and processor time of a process with all that it started, from Linux' /proc."""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What a tree of processes holds and has used at one moment.

    Attributes:
        pss_bytes: memory; a page that processes share counts once in all.
        cpu_s: user and system time so far, of ended processes too where their parents saw the end.
        by_process: name of each process -> its share of `pss_bytes`.
    """

    pss_bytes: int = 0
    cpu_s: float = 0.0
    by_process: dict[str, int] = field(default_factory=dict[str, int])


class ProcessTree:
    """A process and its descendants; also those whose parent has ended, once they were seen.

    Args:
        pid: of the root.
    """

    def __init__(self, pid: int) -> None:
        self._root = (pid, _started(pid))
        self._known = {self._root}

    def sample(self) -> Sample:
        """Measure now."""
        stats = {pid: stat for pid in _pids() if (stat := _stat(pid)) is not None}
        self._known = {(p, s) for p, s in self._known if p in stats and stats[p].started == s}
        pids = {pid for pid, _ in self._known}
        waiting = list(pids)
        while waiting:
            parent = waiting.pop()
            children = {pid for pid, stat in stats.items() if stat.parent == parent} - pids
            pids |= children
            waiting += children
        self._known = {(pid, stats[pid].started) for pid in pids}
        by_process = {f"{stats[pid].name} {pid}": _pss_bytes(pid) for pid in sorted(pids)}
        return Sample(
            pss_bytes=sum(by_process.values()),
            cpu_s=sum(stats[pid].cpu_s for pid in pids),
            by_process=by_process,
        )


class Watch:
    """Samples a tree on a thread, from `with` to its end.

    Attributes:
        peak: the sample with the most memory.
        last: the latest sample.
        count: of samples.

    Args:
        tree: what to look at.
        every_s: pause between samples; default half a second.
    """

    def __init__(self, tree: ProcessTree, *, every_s: float = 0.5) -> None:
        self.peak = self.last = Sample()
        self.count = 0
        self._tree, self._every_s = tree, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
        self._take()

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            self._take()

    def _take(self) -> None:
        self.last = self._tree.sample()
        self.count += 1
        if self.last.pss_bytes >= self.peak.pss_bytes:
            self.peak = self.last


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stat:
    name: str
    parent: int
    cpu_s: float
    started: int


def _pids() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may hold spaces and parentheses itself.
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return _Stat(
        name=name,
        parent=int(fields[1]),
        cpu_s=sum(map(int, fields[11:15])) / _TICKS_PER_S,
        started=int(fields[19]),
    )


def _started(pid: int) -> int:
    stat = _stat(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    return stat.started


def _pss_bytes(pid: int) -> int:
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return 1024 * int(line.split()[1])
    return 0
