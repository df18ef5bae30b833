import gzip
import itertools
import json

import pytest
from tests.timeline.spans import append, append_rounds, small_timeline

from sparkwright.timeline import PhaseCode, SpanStore

NAMING = {"process_name", "thread_name", "process_sort_index"}


def trace_of(timeline, tmp_path, name="trace.json"):
    path = tmp_path / name
    timeline.to_chrome_trace(str(path))
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


def checked_events(trace):
    assert set(trace) == {"displayTimeUnit", "traceEvents"}
    assert trace["displayTimeUnit"] == "ms"
    for event in trace["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            assert event["name"] in NAMING
            assert set(event["args"]) <= {"name", "sort_index"}
            continue
        assert event["ph"] == "X"
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert event["cat"]
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_every_span_is_a_complete_event_of_a_named_process(tmp_path):
    trace = trace_of(small_timeline(rounds=3), tmp_path)
    events = checked_events(trace)
    assert len(events) == 3 + 3 * (2 + 12)
    build = next(e for e in events if e["name"] == "model build" and e["pid"] == 3)
    assert (build["ts"], build["dur"], build["cat"]) == (9e6, 1e6, "start-up")
    named = [event for event in trace["traceEvents"] if event["name"] == "process_name"]
    names = ["driver, demo", "worker 0, alpha", "worker 1, beta", "worker 2, beta"]
    assert [(e["pid"], e["args"]["name"]) for e in named] == list(enumerate(names, start=1))


def assert_none_overlap(events):
    for thread in {(e["pid"], e["tid"]) for e in events}:
        mine = sorted((e["ts"], e["dur"]) for e in events if (e["pid"], e["tid"]) == thread)
        for (ts, dur), (following, _) in itertools.pairwise(mine):
            # To the nanosecond: Perfetto drops what begins within another one.
            assert round(1000 * (ts + dur)) <= round(1000 * following)


def assert_total_is_that_of(timeline, events):
    total_s = sum(event["dur"] for event in events) / 1e6
    assert total_s == pytest.approx(timeline.tallies.seconds.sum(), rel=1e-6)


@pytest.mark.parametrize("exact_limit", [0, 20, 500_000])
def test_events_of_a_thread_do_not_overlap_and_keep_the_total_time(tmp_path, exact_limit):
    timeline = small_timeline(exact_limit=exact_limit)
    events = checked_events(trace_of(timeline, tmp_path, "trace.json.gz"))
    assert_none_overlap(events)
    assert_total_is_that_of(timeline, events)
    summed = [event for event in events if event.get("args", {}).get("aggregated")]
    assert bool(summed) == (exact_limit < 500_000)


def test_many_aggregated_events_are_merged_into_fewer_longer_ones(tmp_path, monkeypatch):
    monkeypatch.setattr("sparkwright.timeline.chrome_trace._MOST_SUMS", 100)
    store = SpanStore(workers=3, exact_limit=0)
    for worker in range(3):
        append_rounds(store, worker, rounds=2000, start_s=0.0)
    timeline = store.timeline()
    events = checked_events(trace_of(timeline, tmp_path))
    assert len(events) <= 100
    assert_total_is_that_of(timeline, events)


def test_concurrent_spans_have_separate_threads(tmp_path):
    store = SpanStore(workers=1)
    append(store, 0, (PhaseCode.COMPUTE, 0.0, 2.0), (PhaseCode.CHECKPOINT, 1.0, 3.0))
    append(store, 0, (PhaseCode.COMPUTE, 2.0, 1.0), (PhaseCode.WORK, 0.0, 4.0))
    events = checked_events(trace_of(store.timeline(), tmp_path))
    assert {(e["name"], e["ts"]): e["tid"] for e in events} == {
        ("compute", 0.0): 1,
        ("checkpoint", 1e6): 3,
        ("compute", 2e6): 1,
        ("whole task", 0.0): 2,
    }


@pytest.mark.parametrize("exact_limit", [0, 5])
def test_aggregates_of_concurrent_spans_do_not_overlap(tmp_path, exact_limit):
    store = SpanStore(workers=1, exact_limit=exact_limit)
    # Checkpoints are sent beside what else is done; the first one takes long.
    append(store, 0, (PhaseCode.CHECKPOINT, 0.25, 2.0))
    for second in range(6):
        append(store, 0, (PhaseCode.COMPUTE, second, 0.75), (PhaseCode.WAIT, second + 0.75, 0.25))
        append(store, 0, (PhaseCode.WORK, second, 1.0))
        if second > 2:
            append(store, 0, (PhaseCode.CHECKPOINT, second + 0.5, 0.5))
    timeline = store.timeline()
    events = checked_events(trace_of(timeline, tmp_path))
    assert_none_overlap(events)
    assert_total_is_that_of(timeline, events)
    assert any(e["tid"] == 3 for e in events)
    assert all(e["tid"] != 3 for e in events if e["name"] == "whole task")


def test_rounding_of_long_spans_creates_no_overlap(tmp_path):
    store = SpanStore(workers=1)
    append(store, 0, (PhaseCode.TENSORFLOW, 0.1, 20.30000037), (PhaseCode.BUILD, 20.4, 1.0))
    first, second = checked_events(trace_of(store.timeline(), tmp_path))
    assert first["tid"] == second["tid"] == 1
    assert round(1000 * (first["ts"] + first["dur"])) <= round(1000 * second["ts"])
