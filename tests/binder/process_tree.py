"""Memory and processor time of a process with all that it started."""

import contextlib
import threading
from dataclasses import dataclass, field

import psutil


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What a tree of processes holds and has used at one moment."""

    pss_bytes: int = 0
    cpu_s: float = 0.0
    by_process: dict[str, int] = field(default_factory=dict[str, int])


class ProcessTree:
    """A process and its descendants; also those whose parent has ended, once they were seen."""

    def __init__(self, pid):
        self._known = {psutil.Process(pid)}

    def sample(self):
        """Measure now."""
        for process in list(self._known):
            with contextlib.suppress(psutil.NoSuchProcess):
                self._known.update(process.children(recursive=True))
        by_process = {}
        cpu_s = 0.0
        for process in list(self._known):
            try:
                name = f"{process.name()} {process.pid}"
                cpu_s += sum(process.cpu_times()[:4])  # of ended children, too
                by_process[name] = process.memory_full_info().pss
            except psutil.ZombieProcess:
                continue  # holds nothing, and nobody has asked yet what it used
            except psutil.NoSuchProcess:
                self._known.discard(process)
        return Sample(pss_bytes=sum(by_process.values()), cpu_s=cpu_s, by_process=by_process)


class Watch:
    """Samples a tree on a thread, from `with` to its end."""

    def __init__(self, tree, *, every_s=0.5):
        self.peak = self.last = Sample()
        self.count = 0
        self._tree, self._every_s = tree, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self):
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._over.set()
        self._thread.join()
        self._take()

    def _poll(self):
        while not self._over.wait(self._every_s):
            self._take()

    def _take(self):
        self.last = self._tree.sample()
        self.count += 1
        if self.last.pss_bytes >= self.peak.pss_bytes:
            self.peak = self.last
