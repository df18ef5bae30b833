"""The timeline of a run as one value: tables, words, pictures, files."""

import base64
import gzip
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.storage._files import write_bytes

from .chrome_trace import trace_lines
from .clocks import ClockReading
from .page import page_of
from .phases import DL4J_NAMES, PHASES, unknown_codes
from .spans import CODES, DURATION_BINS, BucketSums, Spans, Tallies
from .summary import PhaseTotal, phase_totals, summary_text, what_dominated

_NAME, _VERSION = "timeline", 1
# The arrays of each part, with their types in files and their dimensions.
_Arrays = Mapping[str, tuple[str, int]]
_SPANS: _Arrays = {
    **{"lanes": ("<i4", 1), "codes": ("|u1", 1)},
    **{"starts_s": ("<f8", 1), "seconds": ("<f4", 1)},
}
_REST: _Arrays = {"lanes": ("<i4", 1), "codes": ("|u1", 1), "seconds": ("<f8", 2)}
_TALLIES: _Arrays = {"count": ("<i8", 2), "seconds": ("<f8", 2), "longest_s": ("<f8", 2)}


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
        rest, tallies = self.rest, self.tallies
        used = np.argwhere(tallies.durations)
        counts = tallies.durations[tuple(used.T)]
        return {
            "name": _NAME,
            "version": _VERSION,
            "run": self.name,
            "elapsed_s": self.elapsed_s,
            "hosts": list(self.hosts),
            "clocks": [reading.to_dict() for reading in self.clocks],
            "spans": _arrays_to_dict(self.spans, _SPANS),
            "rest": rest and {"width_s": rest.width_s, **_arrays_to_dict(rest, _REST)},
            "tallies": {
                **_arrays_to_dict(tallies, _TALLIES),
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
                spans=Spans(**_arrays_from_dict(values["spans"], _SPANS)),
                rest=None if values["rest"] is None else _sums_from(values["rest"]),
                tallies=_tallies_from(values["tallies"], workers=len(hosts)),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"A timeline is damaged. Received: {error!r:.200}.") from error
        _check_lanes_and_codes(found)
        return found


def _sums_from(values: Mapping[str, Any]) -> BucketSums:
    found = _arrays_from_dict(values, _REST)
    return BucketSums(width_s=float(values["width_s"]), **found)


def _tallies_from(values: Mapping[str, Any], *, workers: int) -> Tallies:
    found = _arrays_from_dict(values, _TALLIES)
    if (shapes := {array.shape for array in found.values()}) != {(workers + 1, CODES)}:
        raise DataError(f"A timeline is damaged. Received: sums of shapes {shapes}.")
    durations = np.zeros((2, CODES, DURATION_BINS), np.int64)
    places = np.array(values["durations"], np.int64).reshape(-1, 3)
    if len(places) and ((places < 0) | (places >= durations.shape)).any():
        raise DataError("A timeline is damaged. Received: durations outside of all bins.")
    durations[tuple(places.T)] = np.array(values["counts"], np.int64)
    return Tallies(**found, durations=durations)


def _arrays_to_dict(value: Any, types: _Arrays) -> dict[str, Any]:
    """Return arrays as JSON values: type, shape, and the little-endian bytes in base64."""
    arrays = {name: np.ascontiguousarray(getattr(value, name), types[name][0]) for name in types}
    return {
        name: {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "data": base64.b64encode(array.tobytes()).decode("ascii"),
        }
        for name, array in arrays.items()
    }


def _arrays_from_dict(values: Mapping[str, Any], types: _Arrays) -> dict[str, NDArray[Any]]:
    """Return the arrays that `_arrays_to_dict` gave, all with the same number of rows.

    Raises:
        DataError: if these are other arrays.
        ValueError: if one is damaged.
    """
    found: dict[str, NDArray[Any]] = {}
    for name, (kind, dimensions) in types.items():
        raw = base64.b64decode(values[name]["data"], validate=True)
        shape = tuple(map(int, values[name]["shape"]))
        fits = values[name]["dtype"] == kind and len(shape) == dimensions and min(shape) >= 0
        if not fits or math.prod(shape) * np.dtype(kind).itemsize != len(raw):
            raise DataError(
                f"The array `{name}` of a timeline must be {kind} of {dimensions} dimensions. "
                f"Received: {values[name]['dtype']!r:.20} of shape {shape}, {len(raw)} bytes."
            )
        native = np.frombuffer(raw, kind).reshape(shape)
        found[name] = native.astype(native.dtype.newbyteorder("="))
    if len({len(array) for array in found.values()}) != 1:
        rows = {name: len(array) for name, array in found.items()}
        raise DataError(f"The arrays of a timeline must be of one length. Received: {rows}.")
    return found


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
