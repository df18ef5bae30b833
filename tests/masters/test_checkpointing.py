import hypothesis.strategies as st
from hypothesis import given

from sparkwright.masters import Checkpointing


@given(
    rounds=st.integers(1, 100),
    seconds=st.floats(0.1, 100),
    rounds_since=st.integers(0, 200),
    seconds_since=st.floats(0, 200),
)
def test_checkpoint_is_due_at_the_first_bound_reached(rounds, seconds, rounds_since, seconds_since):
    by_rounds = Checkpointing("/data", every_rounds=rounds)
    by_time = Checkpointing("/data", every_s=seconds)
    by_both = Checkpointing("/data", every_rounds=rounds, every_s=seconds)
    asked = (rounds_since, seconds_since)
    assert by_both.due(*asked) == (by_rounds.due(*asked) or by_time.due(*asked))
    assert by_rounds.due(*asked) == (rounds_since >= rounds)
    assert by_time.due(*asked) == (rounds_since > 0 and seconds_since >= seconds)
