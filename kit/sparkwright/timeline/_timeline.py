"""Where the time of a run went, as one value: tables, words, pictures, files."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._buckets import BucketSums
from ._chrome_trace import trace_lines
from ._clock_reading import ClockReading
from ._durations import DURATION_BINS
from ._html import page_of
from ._phases import DL4J_NAMES, PHASES, unknown_codes
from ._spans import Spans
from ._state import array_from_dict, array_to_dict
from ._summary import summary_text, what_dominated
from ._tallies import CODES, Tallies
from ._totals import PhaseTotal, phase_totals

_NAME, _VERSION = "timeline", 1


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
        rest: sums of the others; None if there are none.
        tallies: counts, sums and durations of all.
    """

    name: str
    elapsed_s: float
    hosts: tuple[str, ...]
    clocks: tuple[ClockReading, ...]
    spans: Spans
    rest: BucketSums | None
    tallies: Tallies

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self.hosts)

    def __len__(self) -> int:
        """Spans, those in sums too."""
        return int(self.tallies.count.sum())

    def __repr__(self) -> str:
        return (
            f"Timeline(name={self.name!r}, workers={self.workers}, "
            f"elapsed_s={self.elapsed_s:.3f}, spans={len(self)})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timeline) and self.to_dict() == other.to_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def totals(self) -> list[PhaseTotal]:
        """Every phase that was measured, of the workers together, then of the driver."""
        return phase_totals(self.tallies)

    def summary(self) -> str:
        """A report for a terminal: what dominated, each phase's figures, the clocks."""
        return summary_text(self, self.totals())

    def what_dominated(self) -> str:
        """Where the workers' time went, in a sentence or two."""
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

        lanes, codes = [self.spans.lanes], [self.spans.codes]
        starts_s = [self.spans.starts_s]
        seconds: list[NDArray[np.float64]] = [self.spans.seconds.astype(np.float64)]
        counts = [np.ones(len(self.spans), np.int64)]
        if self.rest is not None:
            row, bucket = np.nonzero(self.rest.seconds)
            lanes.append(self.rest.lanes[row])
            codes.append(self.rest.codes[row])
            starts_s.append(bucket.astype(np.float64) * self.rest.width_s)
            seconds.append(self.rest.seconds[row, bucket])
            counts.append(np.zeros(len(row), np.int64))
        worker, code = np.concatenate(lanes), np.concatenate(codes)
        lane_names = ["driver", *(f"worker {w}" for w in range(self.workers))]
        places = {phase.code: place for place, phase in enumerate(PHASES)}
        phase_place = np.array([places.get(each, 0) for each in range(256)])[code]
        dl4j = [", ".join(phase.dl4j_names) for phase in PHASES]

        def chosen(places: Any, names: list[str]) -> Any:
            # Names may come twice, categories may not.
            category_of, categories = pd.factorize(np.array(names, object))
            return pd.Categorical.from_codes(category_of[places], categories)

        hosts = ["", *self.hosts]
        return pd.DataFrame(
            {
                "lane": chosen(worker + 1, lane_names),
                "worker": worker,
                "host": chosen(worker + 1, hosts),
                "phase": chosen(phase_place, [phase.name for phase in PHASES]),
                "start_s": np.concatenate(starts_s),
                "seconds": np.concatenate(seconds),
                "count": np.concatenate(counts),
                "dl4j": chosen(phase_place, dl4j),
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
        self._write(url, self.html().encode())

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
        self._write(url, gzip.compress(content, 6, mtime=0) if url.endswith(".gz") else content)

    def _write(self, url: str, content: bytes) -> None:
        from sparkwright.storage._files import write_bytes

        write_bytes(url, content)

    # -- as plain values --------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values with a `"name"`; `from_dict` is the inverse."""
        rest = self.rest
        used = np.argwhere(self.tallies.durations)
        counts = self.tallies.durations[tuple(used.T)]
        return {
            "name": _NAME,
            "version": _VERSION,
            "run": self.name,
            "elapsed_s": self.elapsed_s,
            "hosts": list(self.hosts),
            "clocks": [reading.to_dict() for reading in self.clocks],
            "spans": {
                "lanes": array_to_dict(self.spans.lanes),
                "codes": array_to_dict(self.spans.codes),
                "starts_s": array_to_dict(self.spans.starts_s),
                "seconds": array_to_dict(self.spans.seconds),
            },
            "rest": None
            if rest is None
            else {
                "width_s": rest.width_s,
                "lanes": array_to_dict(rest.lanes),
                "codes": array_to_dict(rest.codes),
                "seconds": array_to_dict(rest.seconds),
            },
            "tallies": {
                "count": array_to_dict(self.tallies.count),
                "seconds": array_to_dict(self.tallies.seconds),
                "longest_s": array_to_dict(self.tallies.longest_s),
                "durations": [*map(int, used.ravel())],
                "counts": [*map(int, counts)],
            },
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            DataError: if `values` is no timeline, or of a later version.
        """
        if not isinstance(values, Mapping) or values.get("name") != _NAME:
            raise DataError(f"A timeline has the name {_NAME!r}. Received: {values!r:.200}.")
        if values.get("version") != _VERSION:
            raise DataError(
                f"This version of sparkwright reads timelines of version {_VERSION}. "
                f"Received: version={values.get('version')!r}."
            )
        try:
            hosts = tuple(str(host) for host in values["hosts"])
            found = cls(
                name=str(values["run"]),
                elapsed_s=float(values["elapsed_s"]),
                hosts=hosts,
                clocks=tuple(ClockReading.from_dict(each) for each in values["clocks"]),
                spans=_spans_from(values["spans"]),
                rest=None if values["rest"] is None else _sums_from(values["rest"]),
                tallies=_tallies_from(values["tallies"], workers=len(hosts)),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"A timeline is damaged. Received: {error!r:.200}.") from error
        _check_lanes_and_codes(found)
        return found


def _spans_from(values: Mapping[str, Any]) -> Spans:
    lanes = array_from_dict(values["lanes"], kind="<i4", shape=(None,))
    shape = (len(lanes),)
    return Spans(
        lanes=lanes,
        codes=array_from_dict(values["codes"], kind="|u1", shape=shape),
        starts_s=array_from_dict(values["starts_s"], kind="<f8", shape=shape),
        seconds=array_from_dict(values["seconds"], kind="<f4", shape=shape),
    )


def _sums_from(values: Mapping[str, Any]) -> BucketSums:
    lanes = array_from_dict(values["lanes"], kind="<i4", shape=(None,))
    return BucketSums(
        width_s=float(values["width_s"]),
        lanes=lanes,
        codes=array_from_dict(values["codes"], kind="|u1", shape=(len(lanes),)),
        seconds=array_from_dict(values["seconds"], kind="<f8", shape=(len(lanes), None)),
    )


def _tallies_from(values: Mapping[str, Any], *, workers: int) -> Tallies:
    shape = (workers + 1, CODES)
    durations = np.zeros((2, CODES, DURATION_BINS), np.int64)
    places = np.array(values["durations"], np.int64).reshape(-1, 3)
    if len(places) and ((places < 0) | (places >= durations.shape)).any():
        raise DataError("A timeline is damaged. Received: durations outside of all bins.")
    durations[tuple(places.T)] = np.array(values["counts"], np.int64)
    return Tallies(
        count=array_from_dict(values["count"], kind="<i8", shape=shape),
        seconds=array_from_dict(values["seconds"], kind="<f8", shape=shape),
        longest_s=array_from_dict(values["longest_s"], kind="<f8", shape=shape),
        durations=durations,
    )


def _check_lanes_and_codes(timeline: Timeline) -> None:
    for part in (timeline.spans, timeline.rest):
        if part is None or not len(part.lanes):
            continue
        if unknown := unknown_codes(part.codes):
            raise DataError(
                f"Spans have codes of phases. Received: {unknown[:5]}. A later version of "
                "sparkwright may know them."
            )
        if part.lanes.min() < -1 or part.lanes.max() >= timeline.workers:
            raise DataError(
                f"Spans belong to the driver or one of {timeline.workers} workers. Received: lanes "
                f"from {part.lanes.min()} to {part.lanes.max()}."
            )
