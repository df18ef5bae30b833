"""The timeline of a run, with tables, summaries, charts and file formats."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.storage.files import write_bytes

from .chrome_trace import trace_lines
from .clocks import ClockReading
from .page import page_of
from .phases import DL4J_NAMES, PHASES
from .spans import Spans, Tallies
from .summary import PhaseTotal, phase_totals, report_of, what_dominated

_PIECES = 100_000


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Timeline:
    """Timed phases of a run's driver and workers; `run.timeline`, also during the run.

    Times are seconds since the run began, by the driver's clock. The first spans of a run, up to
    500,000, are stored individually. Later spans are summed by lane, phase and time bucket. Counts,
    totals and durations always include all spans.

    Attributes:
        name: name of the run.
        elapsed_s: seconds from the start of the run to its end, or to now.
        hosts: host of each worker; empty string: unknown.
        clocks: measured offsets of the workers' clocks from the driver's.
        spans: the individual spans.
        rest: sums of the other spans by time bucket; None if there are none.
        tallies: counts, sums and durations of all spans.
    """

    name: str
    elapsed_s: float
    hosts: tuple[str, ...]
    clocks: tuple[ClockReading, ...]
    spans: Spans
    rest: Spans | None
    tallies: Tallies

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.hosts)

    def __len__(self) -> int:
        """The number of spans, including those in sums."""
        return int(self.tallies.count.sum())

    def __repr__(self) -> str:
        return (
            f"Timeline(name={self.name!r}, workers={self.workers}, "
            f"elapsed_s={self.elapsed_s:.3f}, spans={len(self)})"
        )

    def pieces(self) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield lanes, codes, starts, seconds, and the lengths of the containing time intervals."""
        for part in self._parts():
            for first in range(0, len(part), _PIECES):
                chosen = slice(first, first + _PIECES)
                starts_s, seconds = part.starts_s[chosen], part.seconds[chosen].astype(np.float64)
                lengths_s = seconds
                if part.width_s:  # the last bucket ends with the run
                    lengths_s = np.clip(self.elapsed_s - starts_s, 1e-9, part.width_s)
                yield part.lanes[chosen], part.codes[chosen], starts_s, seconds, lengths_s

    def _parts(self) -> list[Spans]:
        return [self.spans] if self.rest is None else [self.spans, self.rest]

    def totals(self) -> list[PhaseTotal]:
        """Return the totals of every measured phase: the workers', then the driver's."""
        return phase_totals(self.tallies)

    def summary(self) -> str:
        """Return a report for a terminal: dominant phases, all phases' figures, clocks."""
        return report_of(self).text()

    def what_dominated(self) -> str:
        """Summarize the workers' use of time in one or two sentences."""
        return what_dominated(self.totals(), self.tallies)

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with one row per span.

        Columns: lane ("driver", "worker 3"), worker (-1: the driver), host, phase, start_s,
        seconds, count, dl4j (Deeplearning4j's short names, joined by commas). Summed spans have one
        row per time bucket: start_s is the start of the bucket and seconds the sum. Their count is
        0, because the number of spans per bucket is unknown. The seconds of each lane and phase add
        up to its total.
        """
        import pandas as pd

        parts = self._parts()
        worker = np.concatenate([part.lanes for part in parts])
        places = {phase.code: place for place, phase in enumerate(PHASES)}
        codes = np.concatenate([part.codes for part in parts])
        place = np.array([places.get(each, 0) for each in range(256)])[codes]

        def chosen(places: Any, names: list[str]) -> Any:
            # Names may be duplicates; categories must be unique.
            category_of, categories = pd.factorize(np.array(names, object))
            return pd.Categorical.from_codes(category_of[places], categories)

        return pd.DataFrame(
            {
                "lane": chosen(
                    worker + 1, ["driver", *(f"worker {w}" for w in range(self.workers))]
                ),
                "worker": worker,
                "host": chosen(worker + 1, ["", *self.hosts]),
                "phase": chosen(place, [phase.name for phase in PHASES]),
                "start_s": np.concatenate([part.starts_s for part in parts]),
                "seconds": np.concatenate([part.seconds.astype(np.float64) for part in parts]),
                "count": np.concatenate(
                    [np.full(len(part), not part.width_s, np.int64) for part in parts]
                ),
                "dl4j": chosen(place, [", ".join(phase.dl4j_names) for phase in PHASES]),
            }
        )

    def dl4j(self) -> Any:
        """Return a pandas DataFrame of the corresponding measurements of Deeplearning4j.

        Columns: key, name (its short name), phases (of this package, joined by commas), count,
        seconds. A phase with several keys is included in each.
        """
        import pandas as pd

        totals = self.totals()
        rows: list[dict[str, Any]] = []
        for key, name in DL4J_NAMES.items():
            phases = ", ".join(phase.name for phase in PHASES if key in phase.dl4j)
            mine = [total for total in totals if key in total.phase.dl4j]
            sums = {"count": sum(t.count for t in mine), "seconds": sum(t.seconds for t in mine)}
            rows.append({"key": key, "name": name, "phases": phases, **sums})
        return pd.DataFrame(rows)

    # -- files ------------------------------------------------------------------------------

    def html(self) -> str:
        """Return a self-contained HTML page; see `to_html`."""
        return page_of(self)

    def to_html(self, url: str) -> None:
        """Write an HTML page: a picture of all lanes, a legend, and all totals as a table.

        The page is self-contained and has no scripts. It is smaller than 5 MB: the picture has the
        share of each phase in each time interval. To zoom, see `to_chrome_trace`.

        Args:
            url: path or URL of the file.

        Raises:
            OSError: if it cannot be written.
        """
        write_bytes(url, self.html().encode())

    def to_chrome_trace(self, url: str) -> None:
        """Write a trace file for https://ui.perfetto.dev and chrome://tracing.

        Args:
            url: path or URL of the file; ".json", or ".json.gz" to compress it.

        Raises:
            OSError: if it cannot be written.
        """
        lines = trace_lines(self.spans, self.rest, hosts=self.hosts, name=self.name)
        content = "".join(lines).encode()
        # No timestamp in the file: equal timelines give equal files.
        write_bytes(url, gzip.compress(content, 6, mtime=0) if url.endswith(".gz") else content)
