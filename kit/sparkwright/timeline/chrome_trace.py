"""Export a timeline in the Trace Event Format for Perfetto and chrome://tracing.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes it: "X" is
a complete event, with start and duration in microseconds; "M" names processes and threads.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from .phases import PHASES, phase_of
from .spans import Spans

_MOST_SUMS = 300_000  # events made of sums; browsers cannot show many more
_FIRST_WORKER_PROCESS = 2  # after the driver's
# Enclosing phases have a separate thread: some viewers display overlapping events badly.
_THREAD, _ENCLOSING_THREAD, _SECOND_THREAD = 1, 2, 3
_THREADS = {
    _THREAD: "phases",
    _ENCLOSING_THREAD: "as a whole",
    _SECOND_THREAD: "at the same time",
}
_ENCLOSING = [phase.code for phase in PHASES if phase.encloses]
# Maximum apparent overlap of consecutive spans, because durations are rounded to float32.
_ROUNDING_NS, _ROUNDING = 1000, 2.0**-22
# (lane, thread) -> the end of the last event, and its maximum rounding error.
_Until = dict[tuple[int, int], tuple[int, int]]


def trace_lines(
    spans: Spans, rest: Spans | None, *, hosts: Sequence[str], name: str
) -> Iterator[str]:
    """Yield the text of the file, line by line."""
    # Each sum is one event of the total duration. Events of a bucket follow one another from the
    # start of the bucket, with the argument `"aggregated": true`. Overlapping events are on a
    # separate thread.
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    yield ",\n".join(json.dumps(event) for event in _names(hosts, name))
    until: _Until = {}
    yield from _events(spans, until)
    if rest is not None:
        while len(rest) > _MOST_SUMS:
            rest = rest.coarser()
        yield from _events(rest, until, f',"args":{{"aggregated":true,"bucket_s":{rest.width_s}}}')
    yield "\n]}\n"


def _names(hosts: Sequence[str], name: str) -> Iterator[dict[str, Any]]:
    driver = f"driver, {name}" if name else "driver"
    workers = [f"worker {w}" + (f", {host}" if host else "") for w, host in enumerate(hosts)]
    for lane, label in enumerate([driver, *workers], start=-1):
        process = _FIRST_WORKER_PROCESS + lane
        base = {"ph": "M", "pid": process, "tid": 0, "ts": 0}
        yield {**base, "name": "process_name", "args": {"name": label}}
        yield {**base, "name": "process_sort_index", "args": {"sort_index": process}}
        for thread, word in _THREADS.items():
            yield {**base, "tid": thread, "name": "thread_name", "args": {"name": word}}


def _events(spans: Spans, until: _Until, more: str = "") -> Iterator[str]:
    """Yield an event for each row; `until` is updated."""
    order = np.lexsort((spans.starts_s, np.isin(spans.codes, _ENCLOSING), spans.lanes))
    starts_ns = np.floor(spans.starts_s[order] * 1e9).astype(np.int64)
    lengths_ns = np.rint(spans.seconds[order].astype(np.float64) * 1e9).astype(np.int64)
    codes = spans.codes[order]
    threads = np.where(np.isin(codes, _ENCLOSING), _ENCLOSING_THREAD, _THREAD)
    rows = (spans.lanes[order], codes, threads, starts_ns, lengths_ns)
    width_ns = round(spans.width_s * 1e9)
    for lane, code, thread, start_ns, length_ns in zip(*(r.tolist() for r in rows), strict=True):
        end_ns, slack_ns = until.get((lane, thread), (0, 0))
        # Perfetto drops an event that begins within another event and ends after it. If the
        # overlap is a rounding error, begin where the other ends; otherwise use another thread.
        late_ns = max(0, end_ns - start_ns)
        if not width_ns and late_ns <= slack_ns:
            length_ns = max(0, length_ns - late_ns)
        elif not width_ns or (
            thread == _THREAD and late_ns + length_ns > width_ns + _slack_ns(width_ns)
        ):
            thread = _SECOND_THREAD
            late_ns = max(0, until.get((lane, thread), (0, 0))[0] - start_ns)
        begin_ns = start_ns + late_ns
        until[lane, thread] = begin_ns + length_ns, _slack_ns(length_ns)
        yield (
            f',\n{{"ph":"X",{_named(code)},"pid":{_FIRST_WORKER_PROCESS + lane},"tid":{thread},'
            f'"ts":{_us(begin_ns)},"dur":{_us(length_ns)}{more}}}'
        )


@cache
def _named(code: int) -> str:
    phase = phase_of(code)
    return f'"name":{json.dumps(phase.label)},"cat":{json.dumps(phase.group)}'


def _slack_ns(length_ns: int) -> int:
    return _ROUNDING_NS + int(_ROUNDING * length_ns)


def _us(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
