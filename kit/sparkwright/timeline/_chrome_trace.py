"""A timeline in the Trace Event Format, which Perfetto and chrome://tracing read.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes it: "X" is
a complete event, with start and duration in microseconds; "M" names processes and threads.
"""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._buckets import BucketSums
from ._phases import PHASES, phase_of
from ._spans import Spans

_MOST_SUMS = 300_000  # events made of sums; more would be too much for a browser
_DRIVER_PROCESS, _FIRST_WORKER_PROCESS = 1, 2
# Phases that enclose others have a thread of their own: some viewers lay out what overlaps badly.
_THREAD, _ENCLOSING_THREAD, _SECOND_THREAD = 1, 2, 3
_THREADS = {
    _THREAD: "phases",
    _ENCLOSING_THREAD: "as a whole",
    _SECOND_THREAD: "at the same time",
}
# By so much a span may seem to reach into the next one: durations are float32.
_ROUNDING_S, _ROUNDING = 1e-6, 2.0**-22


def trace_lines(
    spans: Spans, rest: BucketSums | None, *, hosts: Sequence[str], name: str
) -> Iterator[str]:
    """The file's text, line by line.

    Sums are events as long as what they add up, one after the other from the beginning of their
    bucket, with `"aggregated": true` among their arguments.
    """
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    yield ",\n".join(json.dumps(event) for event in _names(hosts, name))
    labels = {code: json.dumps(phase_of(code).label) for code in np.unique(spans.codes).tolist()}
    groups = {code: json.dumps(phase_of(code).group) for code in labels}
    for lane, code, thread, start_ns, end_ns in _placed(spans):
        yield (
            f',\n{{"ph":"X","name":{labels[code]},"cat":{groups[code]},"pid":{_process_of(lane)},'
            f'"tid":{thread},"ts":{_us(start_ns)},"dur":{_us(end_ns - start_ns)}}}'
        )
    if rest is not None:
        for event in _summed_events(rest, spans):
            yield f",\n{json.dumps(event)}"
    yield "\n]}\n"


def _names(hosts: Sequence[str], name: str) -> Iterator[dict[str, Any]]:
    driver = f"driver, {name}" if name else "driver"
    workers = [f"worker {w}" + (f", {host}" if host else "") for w, host in enumerate(hosts)]
    for lane, label in enumerate([driver, *workers], start=-1):
        process = _process_of(lane)
        base = {"ph": "M", "pid": process, "tid": 0, "ts": 0}
        yield {**base, "name": "process_name", "args": {"name": label}}
        yield {**base, "name": "process_sort_index", "args": {"sort_index": process}}
        for thread, word in _THREADS.items():
            yield {**base, "tid": thread, "name": "thread_name", "args": {"name": word}}


def _placed(spans: Spans) -> Iterator[tuple[int, int, int, int, int]]:
    """Lane, code, thread, start and end of each span, the last two in nanoseconds.

    Perfetto drops an event that begins within another one and ends after it. What only seems to,
    by rounding, ends where the next begins; what does goes to a thread of its own.
    """
    order = np.lexsort((spans.starts_s, _encloses(spans.codes), spans.lanes))
    lanes, codes = spans.lanes[order], spans.codes[order]
    starts_s, lengths_s = spans.starts_s[order], spans.seconds[order].astype(np.float64)
    ends_s = starts_s + lengths_s
    follows = (lanes[1:] == lanes[:-1]) & (_encloses(codes)[1:] == _encloses(codes)[:-1])
    allowed_s = _ROUNDING_S + _ROUNDING * lengths_s[:-1]
    touches = follows & (ends_s[:-1] - starts_s[1:] <= allowed_s)
    ends_s[:-1] = np.where(touches, np.minimum(ends_s[:-1], starts_s[1:]), ends_s[:-1])
    # Rounded down both, so that what does not overlap in seconds does not in nanoseconds.
    starts_ns, ends_ns = (np.floor(each * 1e9).astype(np.int64) for each in (starts_s, ends_s))
    until: dict[tuple[int, int], int] = {}
    rows = (lanes, codes, starts_ns, ends_ns)
    for lane, code, start_ns, end_ns in zip(*(row.tolist() for row in rows), strict=True):
        thread = _thread_of(code)
        if start_ns < until.get((lane, thread), 0):
            thread = _SECOND_THREAD
        until[lane, thread] = max(end_ns, until.get((lane, thread), 0))
        yield lane, code, thread, start_ns, max(start_ns, end_ns)


def _us(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _summed_events(rest: BucketSums, spans: Spans) -> Iterator[dict[str, Any]]:
    sums, width_s = rest.seconds, rest.width_s
    while np.count_nonzero(sums) > _MOST_SUMS and sums.shape[1] > 1:
        if sums.shape[1] % 2:
            sums = np.concatenate([sums, np.zeros((len(sums), 1))], axis=1)
        sums, width_s = sums[:, 0::2] + sums[:, 1::2], 2 * width_s
    for lane in np.unique(rest.lanes).tolist():
        mine = np.flatnonzero(rest.lanes == lane)
        # After what is there exactly: a lane's sums begin where its single spans end.
        exact = (spans.lanes == lane) & ~_encloses(spans.codes)
        ends_s = (spans.starts_s + spans.seconds)[exact]
        at_s = np.maximum(np.arange(sums.shape[1]) * width_s, ends_s.max(initial=0.0))
        for row in mine.tolist():
            phase = phase_of(int(rest.codes[row]))
            for bucket in np.flatnonzero(sums[row] > 0).tolist():
                start_s = bucket * width_s if phase.encloses else float(at_s[bucket])
                # Rounded as the next one's start is.
                start_ns = math.floor(start_s * 1e9)
                end_ns = math.floor((start_s + float(sums[row, bucket])) * 1e9)
                yield {
                    "ph": "X",
                    "name": phase.label,
                    "cat": phase.group,
                    "pid": _process_of(lane),
                    "tid": _thread_of(phase.code),
                    "ts": start_ns / 1000,
                    "dur": (end_ns - start_ns) / 1000,
                    "args": {"aggregated": True, "bucket_s": width_s},
                }
            if not phase.encloses:
                at_s = at_s + sums[row]


def _encloses(codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.isin(codes, [phase.code for phase in PHASES if phase.encloses])


def _process_of(lane: int) -> int:
    return _DRIVER_PROCESS if lane < 0 else _FIRST_WORKER_PROCESS + lane


def _thread_of(code: int) -> int:
    return _ENCLOSING_THREAD if phase_of(code).encloses else _THREAD
