import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparkwright.masters import Checkpointing


def test_a_minute_passes_between_checkpoints_by_default() -> None:
    found = Checkpointing("/data")
    assert (found.every_rounds, found.every_s, found.keep) == (None, 60.0, 3)


def test_with_rounds_given_time_does_not_count() -> None:
    found = Checkpointing("/data", every_rounds=7)
    assert found.every_s is None
    assert not found.due(6, 1e9)
    assert found.due(7, 0.0)


@given(
    rounds=st.integers(1, 100),
    seconds=st.floats(0.1, 100),
    rounds_since=st.integers(0, 200),
    seconds_since=st.floats(0, 200),
)
def test_whichever_is_reached_first_counts(
    rounds: int, seconds: float, rounds_since: int, seconds_since: float
) -> None:
    by_rounds = Checkpointing("/data", every_rounds=rounds)
    by_time = Checkpointing("/data", every_s=seconds)
    by_both = Checkpointing("/data", every_rounds=rounds, every_s=seconds)
    asked = (rounds_since, seconds_since)
    assert by_both.due(*asked) == (by_rounds.due(*asked) or by_time.due(*asked))
    assert by_rounds.due(*asked) == (rounds_since >= rounds)
    assert by_time.due(*asked) == (rounds_since > 0 and seconds_since >= seconds)


@given(rounds=st.integers(0, 100), later=st.integers(0, 100), seconds=st.floats(0, 100))
def test_once_due_it_stays_due(rounds: int, later: int, seconds: float) -> None:
    checkpointing = Checkpointing("/data", every_rounds=5, every_s=20)
    if checkpointing.due(rounds, seconds):
        assert checkpointing.due(rounds + later, seconds + later)


def test_without_progress_nothing_is_due() -> None:
    assert not Checkpointing("/data", every_rounds=1, every_s=1).due(0, 1e9)


def test_only_the_folder_may_come_without_its_name() -> None:
    with pytest.raises(TypeError):
        Checkpointing("/data", 5)  # pyright: ignore[reportCallIssue]
