import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

from sparkwright.timeline import PhaseCode
from sparkwright.workers._phases import _MOST, PhaseRecorder, WorkerClocks, add_beginning, add_end

spans = st.lists(
    st.tuples(st.sampled_from(PhaseCode), st.floats(0, 1e7), st.floats(0, 1e3)), max_size=50
)


@given(spans)
def test_spans_are_taken_in_order_and_once(given_spans):
    recorder = PhaseRecorder()
    for code, start_s, seconds in given_spans:
        recorder.add(code, start_s, start_s + seconds)
    block, missed = recorder.take()
    assert missed == 0
    assert block.codes.tolist() == [code for code, *_ in given_spans]
    assert block.starts_s.tolist() == [start_s for _, start_s, _ in given_spans]
    np.testing.assert_allclose(block.seconds, [s for *_, s in given_spans], rtol=1e-6, atol=1e-8)
    assert len(recorder.take()[0].codes) == 0


def test_full_buffer_counts_missed_spans_and_is_free_after_take():
    recorder = PhaseRecorder()
    for number in range(_MOST + 3):
        recorder.add(PhaseCode.DATA, number, number + 0.5)
    assert recorder.fullness == 1.0
    block, missed = recorder.take()
    assert (len(block.codes), missed) == (_MOST, 3)
    recorder.add(PhaseCode.DATA, 0.0, 1.0)
    block, missed = recorder.take()
    assert (len(block.codes), missed) == (1, 0)


def test_adjacent_waits_are_merged():
    recorder = PhaseRecorder()
    for start_s in (1.0, 1.01, 1.02):
        recorder.add(PhaseCode.WAIT, start_s, start_s + 0.0099, joins=True)
    recorder.add(PhaseCode.WAIT, 5.0, 5.1, joins=True)  # after a gap
    recorder.add(PhaseCode.COMPUTE, 5.1, 5.2)
    recorder.add(PhaseCode.WAIT, 5.2, 5.3, joins=True)  # after something else
    block, _ = recorder.take()
    assert block.codes.tolist() == [10, 10, 7, 10]
    np.testing.assert_allclose(block.starts_s, [1.0, 5.0, 5.1, 5.2])
    np.testing.assert_allclose(block.seconds, [0.0299, 0.1, 0.1, 0.1], rtol=1e-5)
    recorder.add(PhaseCode.WAIT, 5.3, 5.4, joins=True)  # the one before was taken away
    assert recorder.take()[0].starts_s.tolist() == [5.3]


def test_failing_phase_is_recorded():
    recorder = PhaseRecorder()
    with pytest.raises(KeyError), recorder.phase(PhaseCode.VALIDATE):
        raise KeyError
    assert recorder.take()[0].codes.tolist() == [PhaseCode.VALIDATE]


@cases(
    "times, ready_s, codes",
    ((10.0, 12.0), 15.0, [PhaseCode.SHARD, PhaseCode.TENSORFLOW]),
    ((10.0, 12.0), 11.0, [PhaseCode.SHARD]),  # TensorFlow was there
    ((10.0, 10.0), 5.0, []),  # and so were the files
)
def test_startup_phases_are_recorded_only_if_they_ran(times, ready_s, codes):
    recorder = PhaseRecorder()
    add_beginning(recorder, times, ready_s=ready_s)
    add_end(recorder, times)
    assert recorder.take()[0].codes.tolist() == [*codes, PhaseCode.WORK]


def test_process_keeps_its_clock_between_runs(monkeypatch):
    clocks = WorkerClocks()
    first = clocks.of(None, worker=0)
    assert clocks.of(None, worker=3) is first
    monkeypatch.setenv("SPARKWRIGHT_CLOCK_SHIFT_S", "0,5")
    assert clocks.of(None, worker=0) is first
    assert clocks.of(None, worker=1).shift_s == 5.0
