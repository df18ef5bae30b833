import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.cases import cases
from tests.timeline.spans import append

from sparkwright.errors import DataError, NetworkError
from sparkwright.timeline import PHASES, PhaseCode, SpanStore
from sparkwright.timeline.spans import (
    DURATION_BINS,
    MOST_SPANS,
    SpanBlock,
    Tallies,
    duration_quantile_s,
)

CODES = [phase.code for phase in PHASES]
spans = st.tuples(
    st.sampled_from(CODES), st.floats(-1.0, 1e5, width=32), st.floats(0.0, 1e4, width=32)
)
messages = st.lists(st.tuples(st.integers(-1, 3), st.lists(spans, min_size=1, max_size=20)))


def store_of(sent, exact_limit):
    store = SpanStore(workers=4, exact_limit=exact_limit)
    for lane, rows in sent:
        append(store, lane, *rows)
    return store


def totals_of(frame):
    summed = frame.groupby(["worker", "phase"], observed=True)["seconds"].sum()
    codes = {phase.name: phase.code for phase in PHASES}
    return {(lane, codes[name]): value for (lane, name), value in summed.items() if value}


@settings(max_examples=50)
@given(messages, st.integers(0, 30))
def test_total_time_is_preserved_for_any_exact_limit(sent, exact_limit):
    timeline = store_of(sent, exact_limit).timeline()
    first = [code for _, rows in sent for code, _, _ in rows][:exact_limit]
    assert timeline.spans.codes.tolist() == first
    wanted = {}
    for lane, rows in sent:
        for code, _, seconds in rows:
            wanted[lane, code] = wanted.get((lane, code), 0.0) + float(np.float32(seconds))
    wanted = {key: value for key, value in wanted.items() if value}
    # Sums of float64 in another order.
    assert totals_of(timeline.to_dataframe()) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    for (lane, code), seconds in wanted.items():
        assert timeline.tallies.seconds[lane + 1, code] == pytest.approx(seconds, rel=1e-9)
    assert timeline.tallies.count.sum() == sum(len(rows) for _, rows in sent)


def test_live_timeline_does_not_change_when_spans_arrive():
    store = SpanStore(workers=2, exact_limit=1)
    append(store, 0, (PhaseCode.DATA, 0.0, 1.0), (PhaseCode.COMPUTE, 1.0, 1.0))
    before = store.timeline()
    kept = before.to_dataframe()
    append(store, 0, (PhaseCode.COMPUTE, 2.0, 5.0))
    append(store, 1, (PhaseCode.COMPUTE, 2.0, 5.0))
    assert before.to_dataframe().equals(kept)
    assert len(before) == 2


@cases(
    "lane, codes, starts_s, seconds, message",
    (2, [7], [0.0], [1.0], "lanes from 2 to 2"),
    (0, [200], [0.0], [1.0], r"codes of phases. Received: \[200\]"),
    (0, [7], [np.nan], [1.0], "start nan"),
    (0, [7], [1e300], [1.0], "start 1e"),
    (0, [7, 7], [0.0, 0.0], [1.0, -1.0], "duration -1.0"),
    (0, [7], [0.0], [np.inf], "duration"),
    (0, [7, 7], [0.0], [1.0], "one lane, code, start and duration"),
)
def test_batch_with_an_invalid_span_is_rejected(lane, codes, starts_s, seconds, message):
    store = SpanStore(workers=2)
    with pytest.raises(DataError, match=message):
        store.append(
            lane, np.array(codes, np.uint8), np.array(starts_s), np.array(seconds, np.float32)
        )
    assert len(store) == 0


@cases("exact_limit", 0, 10)
def test_unfinished_spans_are_shown_but_not_stored(exact_limit):
    store = SpanStore(workers=1, exact_limit=exact_limit)
    append(store, -1, (PhaseCode.LAYOUT, -0.002, 1.0))  # before the run: at its start
    timeline = store.timeline(ongoing=SpanBlock.of_one(PhaseCode.GATHER, 1.0, 2.5))
    totals = {(total.phase.name, total.seconds) for total in timeline.totals()}
    assert totals == {("layout", 1.0), ("gather", 2.5)}
    assert timeline.elapsed_s == 3.5
    gather = timeline.to_dataframe().query("phase == 'gather'")
    assert gather[["worker", "start_s", "seconds", "count"]].values.tolist() == [[-1, 1.0, 2.5, 1]]
    assert [total.phase.name for total in store.timeline().totals()] == ["layout"]
    assert store.timeline().elapsed_s == 1.0


@given(st.lists(st.tuples(st.integers(0, 255), st.floats(-1e9, 1e9), st.floats(0, 1e6, width=32))))
def test_spans_round_trip_through_a_message(spans):
    codes, starts_s, seconds = zip(*spans, strict=True) if spans else ((), (), ())
    block = SpanBlock(
        codes=np.array(codes, np.uint8),
        starts_s=np.array(starts_s, np.float64),
        seconds=np.array(seconds, np.float32),
    )
    payload = b"".join(block.to_payload())
    assert len(payload) == 13 * len(spans)
    for sent, found in zip(block, SpanBlock.from_payload(payload, len(spans)), strict=True):
        np.testing.assert_array_equal(sent, found)


@cases("content, count", (b"x" * 13, 2), (b"x" * 14, 1), (b"", -1), (b"", MOST_SPANS + 1))
def test_message_of_a_different_length_is_rejected(content, count):
    with pytest.raises(NetworkError, match="a message of spans must hold at most"):
        SpanBlock.from_payload(content, count)


def counted(*seconds):
    tallies = Tallies.empty(1)
    tallies.add(0, np.full(len(seconds), 7, np.uint8), np.array(seconds))
    return tallies.durations[1, 7]


@given(st.lists(st.floats(2e-6, 1e6), min_size=1, max_size=200), st.floats(0, 1))
def test_quantile_error_is_at_most_2_25_percent(seconds, share):
    wanted = np.quantile(seconds, share, method="inverted_cdf")
    assert duration_quantile_s(counted(*seconds), share) == pytest.approx(wanted, rel=0.0225)


def test_durations_beyond_all_bins_are_counted():
    assert counted(0.0, 0.0, 3e-7)[0] == 3
    assert duration_quantile_s(counted(0.0, 0.0, 3e-7), 0.5) == 0.0
    assert duration_quantile_s(np.zeros(DURATION_BINS, np.int64), 0.5) == 0.0
    assert np.flatnonzero(counted(1e12)).tolist() == [DURATION_BINS - 1]
