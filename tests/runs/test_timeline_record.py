import logging
import time

import numpy as np
import pytest
from tests.cases import cases

from sparkwright.errors import DataError, NetworkError
from sparkwright.masters import NtpClock, SystemClock
from sparkwright.mesh.framing import Message
from sparkwright.runs.timeline_record import TimelineRecord
from sparkwright.timeline import PhaseCode
from sparkwright.timeline.clocks import ClockState
from sparkwright.timeline.spans import SpanBlock

UNREACHABLE = NtpClock(server="127.0.0.1:9", retries=1, timeout_s=0.1)


def record(*, time_source=None, workers=2):
    found = TimelineRecord(workers=workers, name="test")
    found.collect(time_source)
    return found


def block(*spans):
    codes, starts_s, seconds = zip(*spans, strict=True)
    return SpanBlock(np.array(codes, np.uint8), np.array(starts_s), np.array(seconds, np.float32))


def message(spans, state, *, missed=0):
    fields = {"count": len(spans.codes), "missed": missed, "clock": state.to_dict()}
    return Message(kind="phases", fields=fields, payload=b"".join(spans.to_payload()))


def rows(times):
    return times.timeline(hosts=["a", "b"], name="test").to_dataframe()


def test_driver_phases_are_consecutive_and_the_current_one_extends_until_now():
    times = TimelineRecord(workers=1, name="test")
    times.expected(0)  # nobody is waited for without collecting
    for code in (PhaseCode.LAYOUT, PhaseCode.SUBMIT, PhaseCode.SUBMIT, PhaseCode.TRAIN):
        times.enter(code)
        time.sleep(0.01)
    for _ in range(2):  # looking changes nothing
        found = rows(times)
        assert found.phase.tolist() == ["layout", "submit", "train"]
        assert found.seconds.iloc[2] >= 0.01
    times.leave()
    times.leave()
    times.close()
    ended = rows(times)
    assert ended.phase.tolist() == ["layout", "submit", "train"]
    assert set(ended.worker) == {-1}
    ends_s = ended.start_s + ended.seconds
    np.testing.assert_allclose(ended.start_s[1:], ends_s[:-1], atol=1e-6)
    time.sleep(0.01)
    assert rows(times).equals(ended)


def test_spans_are_moved_into_the_drivers_time():
    now_s = time.monotonic()
    times = record()
    state = ClockState(
        wall_s=time.time() - time.monotonic(), source="driver", offset_s=-7.0, uncertainty_s=0.001
    )
    times.add_message(1, message(block((PhaseCode.COMPUTE, now_s + 8.0, 0.5)), state))
    found = rows(times).iloc[0]
    assert (found.worker, found.phase, found.host) == (1, "compute", "b")
    assert found.start_s == pytest.approx(1.0, abs=0.2)
    (clock,) = times.timeline(hosts=[], name="").clocks
    assert clock.offset_s == pytest.approx(7.0, abs=0.01)
    assert (clock.uncertainty_s, clock.source) == (0.001, "driver")


def test_a_worker_that_is_waited_for_is_queued_until_its_first_span():
    times = record()
    times.expected(0)
    began_s = time.monotonic()
    state = ClockState(wall_s=0.0, source="driver")
    times.add_message(0, message(block((PhaseCode.SHARD, began_s + 2.0, 1.0)), state))
    times.add_message(0, message(block((PhaseCode.BUILD, began_s + 3.0, 1.0)), state))
    found = rows(times)
    assert sorted(found.phase) == ["build", "queued", "shard"]
    assert found[found.phase == "queued"].seconds.item() == pytest.approx(2.0, abs=0.1)
    times.expected(0)  # it is lost
    times.add_message(0, message(block((PhaseCode.SHARD, time.monotonic() + 1.0, 1.0)), state))
    assert rows(times).phase.tolist().count("queued") == 2


def test_a_worker_whose_next_round_runs_elsewhere_goes_by_the_clock_there():
    """A Spark job is the question and its answer: half of what is unknown went before the task."""
    times = record()
    asked_s = time.monotonic()
    state = ClockState(wall_s=time.time() - time.monotonic(), source="driver")
    # The first job says most of its clock: the second one's must not be taken for the same.
    rounds = (("alpha", 100.0, 0.2), ("beta", 5000.0, 1.0))
    for host, ahead_s, around_s in rounds:
        spans = block((PhaseCode.WORK, asked_s + ahead_s + around_s / 2, 2.0))
        received_s = asked_s + 2.0 + around_s
        end_s = times.returned(0, (host, 7), spans, state, asked_s=asked_s, received_s=received_s)
        assert end_s == pytest.approx(received_s - around_s / 2, abs=1e-3)
        (clock,) = times.timeline(hosts=[], name="").clocks
        assert clock.offset_s == pytest.approx(ahead_s, abs=0.01)
        assert clock.uncertainty_s == pytest.approx(around_s / 2)
        asked_s = received_s
    # Back on the first machine, what its first job said is known still.
    spans = block((PhaseCode.WORK, asked_s + 100.0 + 3.0, 2.0))
    times.returned(0, ("alpha", 7), spans, state, asked_s=asked_s, received_s=asked_s + 8.0)
    (clock,) = times.timeline(hosts=[], name="").clocks
    assert clock.offset_s == pytest.approx(100.0, abs=0.01)
    assert clock.uncertainty_s == pytest.approx(0.1, abs=0.01)


def test_with_the_system_clock_all_clocks_are_believed():
    times = record(time_source=SystemClock())
    now_s, wall_s = time.monotonic(), time.time() - time.monotonic()
    state = ClockState(wall_s=wall_s - 50.0, source="system")  # a machine started 50 s before
    times.add_message(0, message(block((PhaseCode.COMPUTE, now_s + 50.0, 0.5)), state))
    assert rows(times).start_s.item() == pytest.approx(0.0, abs=0.1)
    (clock,) = times.timeline(hosts=[], name="").clocks
    assert clock.offset_s == 0.0
    assert np.isnan(clock.uncertainty_s)


def test_an_ntp_server_that_does_not_answer_is_named_once(caplog):
    times = record(time_source=UNREACHABLE)
    state = ClockState(wall_s=time.time() - time.monotonic(), source="system")
    with caplog.at_level(logging.WARNING):
        for worker in (0, 1, 0):
            spans = block((PhaseCode.COMPUTE, time.monotonic(), 0.5))
            times.add_message(worker, message(spans, state, missed=4))
        times.close()
    assert [r.levelname for r in caplog.records] == ["WARNING"] * 2
    assert "127.0.0.1:9" in caplog.records[0].message
    assert "12 spans" in caplog.records[1].message  # which found no room
    assert len(rows(times)) == 3


@cases("spans", (255, 0.0, 1.0), (7, np.nan, 1.0), (7, 0.0, np.inf), (7, 0.0, -1.0))
def test_spans_that_cannot_be_are_rejected(spans):
    times = record()
    with pytest.raises(DataError):
        times.add_message(0, message(block(spans), ClockState(wall_s=0.0, source="driver")))
    fields = {"count": 1, "missed": 0, "clock": {}}
    with pytest.raises(NetworkError):
        times.add_message(0, Message(kind="phases", fields=fields, payload=b"x"))
    assert len(times.timeline(hosts=[], name="")) == 0
