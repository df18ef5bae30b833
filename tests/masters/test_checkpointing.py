import json
import math
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.masters.helpers import checkpointings

from sparkwright.errors import ConfigurationError
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


@given(checkpointing=checkpointings)
def test_to_dict_and_back_gives_an_equal_one(checkpointing: Checkpointing) -> None:
    settings = json.loads(json.dumps(checkpointing.to_dict()))
    assert Checkpointing.from_dict(settings) == checkpointing


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[("url", value) for value in (None, "", "  ", 7, b"/data")],
        *[("every_rounds", value) for value in (0, -1, 1.5, True, "5")],
        *[("every_s", value) for value in (0, -1, math.nan, math.inf, True, "5")],
        *[("keep", value) for value in (0, -1, None, 2.0, True)],
    ],
)
def test_a_refusal_names_the_option_and_what_it_received(option: str, value: Any) -> None:
    options: dict[str, Any] = {"url": "/data", option: value}
    with pytest.raises(ConfigurationError) as refused:
        Checkpointing(**options)
    assert str(refused.value).startswith(f"`{option}` must be ")
    assert str(refused.value).endswith(f"Received: {option}={value!r}.")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"keep": 3}, "`url` must be the path or URL of a folder. Received: url=None."),
        ({"url": "/data", "every": 3}, "unknown options ['every'] for Checkpointing."),
        ("/data", "settings must be a dict. Received: '/data'."),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: Any, text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Checkpointing.from_dict(settings)
    assert text in str(refused.value)


def test_only_the_folder_may_come_without_its_name() -> None:
    with pytest.raises(TypeError):
        Checkpointing("/data", 5)  # pyright: ignore[reportCallIssue]
