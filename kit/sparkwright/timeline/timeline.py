"""The timeline of a run as one value: tables, words, pictures, files."""

import base64
import gzip
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.storage.files import write_bytes

from .chrome_trace import trace_lines
from .clocks import ClockReading
from .page import page_of
from .phases import DL4J_NAMES, PHASES, unknown_codes
from .spans import Spans, Tallies
from .summary import PhaseTotal, phase_totals, summary_text, what_dominated

_NAME, _VERSION = "timeline", 2
_PIECES = 100_000
_DAMAGE = (KeyError, TypeError, ValueError, OverflowError, OSError, zipfile.BadZipFile)
_COLUMNS = ("lanes", "codes", "starts_s", "seconds")
_TALLIES = ("count", "seconds", "longest_s", "durations")


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Timeline:
    """What driver and workers of a run did, and when; `run.timeline`, also while it goes on.

    Times are seconds since the run began, by the driver's clock. The first spans of a run, up to
    500,000, are there one by one. Later ones are sums by lane, phase and bucket of time; counts,
    totals and durations are those of all spans in either case.

    Attributes:
        name: of the run.
        elapsed_s: seconds from its beginning to its end, or to now.
        hosts: of each worker; empty text: not known.
        clocks: how the workers' clocks differ from the driver's, as far as that was measured.
        spans: the spans that are kept one by one.
        rest: sums of the others by bucket of time; None if there are none.
        tallies: counts, sums and durations of all.
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
        """How many workers there are."""
        return len(self.hosts)

    def __len__(self) -> int:
        """The number of spans, including those in sums."""
        return int(self.tallies.count.sum())

    def __repr__(self) -> str:
        return (
            f"Timeline(name={self.name!r}, workers={self.workers}, "
            f"elapsed_s={self.elapsed_s:.3f}, spans={len(self)})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timeline) and self.to_dict() == other.to_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def pieces(self) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield lanes, codes, starts, seconds, and the length of time that contains these."""
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
        """Every phase that was measured, of the workers together, then of the driver."""
        return phase_totals(self.tallies)

    def summary(self) -> str:
        """A report for a terminal: what dominated, each phase's figures, the clocks."""
        return summary_text(self, self.totals())

    def what_dominated(self) -> str:
        """Say in a sentence or two where the workers' time went."""
        return what_dominated(self.totals(), self.tallies)

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row a span.

        Columns: lane ("driver", "worker 3"), worker (-1: the driver), host, phase, start_s,
        seconds, count, dl4j (Deeplearning4j's short names, joined by commas). What is known as a
        sum only has a row for each bucket of time: start_s is where the bucket begins, seconds the
        sum, and count 0, for it is not known how many spans of the bucket there were. The seconds
        of each phase of each lane add up to the whole.
        """
        import pandas as pd

        parts = self._parts()
        worker = np.concatenate([part.lanes for part in parts])
        places = {phase.code: place for place, phase in enumerate(PHASES)}
        codes = np.concatenate([part.codes for part in parts])
        place = np.array([places.get(each, 0) for each in range(256)])[codes]

        def chosen(places: Any, names: list[str]) -> Any:
            # Names may come twice, categories may not.
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
        """A pandas DataFrame: what Deeplearning4j would have measured, as far as it is the same.

        Columns: key, name (its short name), phases (of this package, joined by commas), count,
        seconds. A phase that belongs to several keys counts for each.
        """
        import pandas as pd

        totals = self.totals()
        rows: list[dict[str, Any]] = []
        for key, name in DL4J_NAMES.items():
            mine = [total for total in totals if key in total.phase.dl4j]
            phases = [phase.name for phase in PHASES if key in phase.dl4j]
            rows.append(
                {
                    "key": key,
                    "name": name,
                    "phases": ", ".join(phases),
                    "count": sum(total.count for total in mine),
                    "seconds": sum(total.seconds for total in mine),
                }
            )
        return pd.DataFrame(rows)

    # -- files ------------------------------------------------------------------------------

    def html(self) -> str:
        """A page that needs no network: lanes, legend, zoom, tables; see `to_html`."""
        return page_of(self)

    def to_html(self, url: str) -> None:
        """Write a page with all lanes to zoom into, and all totals as tables.

        It needs no network, works by mouse and keys, in light and dark. It stays below 5 MB: of
        many lanes or spans, it holds how much of each stretch of time each phase took.

        Args:
            url: of the file, a path or any URL.

        Raises:
            OSError: if it cannot be written.
        """
        write_bytes(url, self.html().encode())

    def to_chrome_trace(self, url: str) -> None:
        """Write a trace that https://ui.perfetto.dev and chrome://tracing open.

        Args:
            url: of the file, a path or any URL; ".json", or ".json.gz" to have it compressed.

        Raises:
            OSError: if it cannot be written.
        """
        lines = trace_lines(self.spans, self.rest, hosts=self.hosts, name=self.name)
        content = "".join(lines).encode()
        # No date inside: the same timeline gives the same file.
        write_bytes(url, gzip.compress(content, 6, mtime=0) if url.endswith(".gz") else content)

    # -- as plain values --------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values with a `"name"`; `from_dict` is the inverse."""
        parts = [("spans", _COLUMNS), ("tallies", _TALLIES), ("rest", _COLUMNS)]
        arrays = {
            f"{part}.{name}": getattr(getattr(self, part), name)
            for part, names in parts[: 2 if self.rest is None else 3]
            for name in names
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        return {
            "name": _NAME,
            "version": _VERSION,
            "run": self.name,
            "elapsed_s": self.elapsed_s,
            "hosts": list(self.hosts),
            "clocks": [reading.to_dict() for reading in self.clocks],
            "width_s": 0.0 if self.rest is None else self.rest.width_s,
            "arrays": base64.b64encode(buffer.getvalue()).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            DataError: if `values` is no timeline, or of another version.
        """
        if not isinstance(values, Mapping) or values.get("name") != _NAME:
            raise DataError(f"A timeline has the name {_NAME!r}. Received: {values!r:.200}.")
        if values.get("version") != _VERSION:
            raise DataError(
                f"This version of sparkwright reads timelines of version {_VERSION}. "
                f"Received: version={values.get('version')!r}."
            )
        try:
            content = io.BytesIO(base64.b64decode(values["arrays"], validate=True))
            with np.load(content, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}

            def taken(part: str, names: tuple[str, ...]) -> dict[str, Any]:
                return {name: arrays[f"{part}.{name}"] for name in names}

            rest_s = float(values["width_s"])
            found = cls(
                name=str(values["run"]),
                elapsed_s=float(values["elapsed_s"]),
                hosts=tuple(str(host) for host in values["hosts"]),
                clocks=tuple(ClockReading.from_dict(each) for each in values["clocks"]),
                spans=Spans(**taken("spans", _COLUMNS)),
                rest=Spans(**taken("rest", _COLUMNS), width_s=rest_s) if rest_s else None,
                tallies=Tallies(**taken("tallies", _TALLIES)),
            )
        except _DAMAGE as error:
            raise DataError(f"A timeline is damaged. Received: {error!r:.200}.") from error
        _check(found)
        return found


def _check(timeline: Timeline) -> None:
    """Raise DataError unless arrays are such as a store makes them."""
    expected = Tallies.empty(timeline.workers)
    for name in _TALLIES:
        found, like = getattr(timeline.tallies, name), getattr(expected, name)
        if found.dtype != like.dtype or found.shape != like.shape:
            raise DataError(
                f"A timeline of {timeline.workers} workers is damaged. Received: sums of shape "
                f"{found.shape}, {found.dtype}."
            )
    for part in (timeline.spans, timeline.rest):
        if part is None:
            continue
        types = ("int32", "uint8", "float64", "float64" if part.width_s else "float32")
        columns = [getattr(part, name) for name in _COLUMNS]
        for name, kind, column in zip(_COLUMNS, types, columns, strict=True):
            if column.dtype != kind or column.shape != (len(part),):
                raise DataError(
                    f"The array `{name}` of a timeline must be {kind} of {len(part)} rows. "
                    f"Received: {column.dtype} of shape {column.shape}."
                )
        if unknown := unknown_codes(part.codes):
            raise DataError(
                f"Spans have codes of phases. Received: {unknown[:5]}. A later version of "
                "sparkwright may know them."
            )
        if len(part) and (part.lanes.min() < -1 or part.lanes.max() >= timeline.workers):
            raise DataError(
                f"Spans belong to the driver or one of {timeline.workers} workers. Received: lanes "
                f"from {part.lanes.min()} to {part.lanes.max()}."
            )
