"""A timeline in the Trace Event Format, which Perfetto and chrome://tracing read.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes it: "X" is
a complete event, with start and duration in microseconds; "M" names processes and threads.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .phases import PHASES, phase_of
from .spans import BucketSums, Spans

_MOST_SUMS = 300_000  # events made of sums; more would be too much for a browser
_DRIVER_PROCESS, _FIRST_WORKER_PROCESS = 1, 2
# Phases that enclose others have a thread of their own: some viewers lay out what overlaps badly.
_THREAD, _ENCLOSING_THREAD, _SECOND_THREAD = 1, 2, 3
_THREADS = {
    _THREAD: "phases",
    _ENCLOSING_THREAD: "as a whole",
    _SECOND_THREAD: "at the same time",
}
_Place = tuple[int, int]  # lane and thread
# By so much a span may seem to reach into the next one: durations are float32.
_ROUNDING_S, _ROUNDING = 1e-6, 2.0**-22


def trace_lines(
    spans: Spans, rest: BucketSums | None, *, hosts: Sequence[str], name: str
) -> Iterator[str]:
    """Yield the text of the file, line by line.

    Sums are events as long as what they add up, one after the other from the beginning of their
    bucket, with `"aggregated": true` among their arguments. Where phases overlapped, so that they
    add up to more than the bucket is long, the rest of them is on a thread of its own.
    """
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    yield ",\n".join(json.dumps(event) for event in _names(hosts, name))
    until: dict[_Place, int] = {}
    for lane, code, thread, start_ns, end_ns in _placed(spans, until):
        yield _event(lane, code, thread, start_ns, end_ns - start_ns)
    if rest is not None:
        yield from _summed_events(rest, until)
    yield "\n]}\n"


def _event(lane: int, code: int, thread: int, start_ns: int, length_ns: int, more: str = "") -> str:
    return (
        f',\n{{"ph":"X",{_named(code)},"pid":{_process_of(lane)},"tid":{thread},'
        f'"ts":{_us(start_ns)},"dur":{_us(length_ns)}{more}}}'
    )


@cache
def _named(code: int) -> str:
    phase = phase_of(code)
    return f'"name":{json.dumps(phase.label)},"cat":{json.dumps(phase.group)}'


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


def _placed(spans: Spans, until: dict[_Place, int]) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield lane, code, thread, start and end of each span, the last two in nanoseconds.

    `until` is told when the last one of each thread has ended.

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
    rows = (lanes, codes, starts_ns, ends_ns)
    for lane, code, start_ns, end_ns in zip(*(row.tolist() for row in rows), strict=True):
        thread = _thread_of(code)
        if start_ns < until.get((lane, thread), 0):
            thread = _SECOND_THREAD
        until[lane, thread] = max(end_ns, until.get((lane, thread), 0))
        yield lane, code, thread, start_ns, max(start_ns, end_ns)


def _us(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _summed_events(rest: BucketSums, until: dict[_Place, int]) -> Iterator[str]:
    """Yield each lane's sums in the order of time, after the single spans of the same thread."""
    sums, width_s = rest.seconds, rest.width_s
    while np.count_nonzero(sums) > _MOST_SUMS and sums.shape[1] > 1:
        if sums.shape[1] % 2:
            sums = np.concatenate([sums, np.zeros((len(sums), 1))], axis=1)
        sums, width_s = sums[:, 0::2] + sums[:, 1::2], 2 * width_s
    more = f',"args":{{"aggregated":true,"bucket_s":{width_s}}}'
    rounding_ns = 1e9 * (_ROUNDING_S + _ROUNDING * width_s)
    for lane in np.unique(rest.lanes).tolist():
        mine = np.flatnonzero(rest.lanes == lane)
        for bucket, row in np.argwhere(sums[mine].T > 0).tolist():
            code = int(rest.codes[mine[row]])
            first_ns, stop_ns = round(bucket * width_s * 1e9), round((bucket + 1) * width_s * 1e9)
            room_ns = max(0, stop_ns - max(first_ns, until.get((lane, _THREAD), 0)))
            length_ns = round(float(sums[mine[row], bucket]) * 1e9)
            for thread, part_ns in _parts(code, length_ns, room_ns, rounding_ns):
                start_ns = max(first_ns, until.get((lane, thread), 0))
                until[lane, thread] = start_ns + part_ns
                yield _event(lane, code, thread, start_ns, part_ns, more)


def _parts(
    code: int, length_ns: int, room_ns: int, rounding_ns: float
) -> Iterator[tuple[int, int]]:
    """Yield threads, and how much of a sum each gets; excess by rounding is cut off."""
    thread = _thread_of(code)
    if thread != _THREAD or length_ns <= room_ns:
        yield thread, length_ns
        return
    if room_ns:
        yield thread, room_ns
    if length_ns - room_ns > rounding_ns:
        yield _SECOND_THREAD, length_ns - room_ns


def _encloses(codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.isin(codes, [phase.code for phase in PHASES if phase.encloses])


def _process_of(lane: int) -> int:
    return _DRIVER_PROCESS if lane < 0 else _FIRST_WORKER_PROCESS + lane


def _thread_of(code: int) -> int:
    return _ENCLOSING_THREAD if phase_of(code).encloses else _THREAD
