"""The clocks that a timeline may go by."""

from typing import Any

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    NtpClock,
    ParameterAveragingTrainingMaster,
    SystemClock,
    time_source_from_dict,
)


def test_by_default_clocks_are_compared_over_the_runs_own_connections() -> None:
    assert ParameterAveragingTrainingMaster().time_source is None


def test_defaults_are_those_that_a_public_server_allows() -> None:
    clock = NtpClock()
    assert (clock.server, clock.every_s, clock.retries, clock.timeout_s) == (
        *("pool.ntp.org", 1800, 10),
        10,
    )
    assert clock.address == ("pool.ntp.org", 123)


def test_a_server_may_have_a_port() -> None:
    assert NtpClock(server="10.0.0.1:1123").address == ("10.0.0.1", 1123)


@pytest.mark.parametrize("server", ["", "  ", "host:", "host:0", "host:65536", "host:²", 123, None])
def test_a_server_is_a_host_with_a_possible_port(server: Any) -> None:
    with pytest.raises(ConfigurationError, match="`server` must be"):
        NtpClock(server=server)


def test_a_server_may_not_be_asked_too_often() -> None:
    with pytest.raises(ConfigurationError, match="`every_s` must be at least 30"):
        NtpClock(every_s=29)


@pytest.mark.parametrize("clock", [SystemClock(), NtpClock(server="time.example", every_s=60.0)])
def test_settings_of_a_clock_make_the_same_clock(clock: Any) -> None:
    assert time_source_from_dict(clock.to_dict()) == clock
    master = ParameterAveragingTrainingMaster(time_source=clock)
    for written, read in (
        (master.to_json(), ParameterAveragingTrainingMaster.from_json),
        (master.to_yaml(), ParameterAveragingTrainingMaster.from_yaml),
    ):
        assert read(written).time_source == clock


@pytest.mark.parametrize(
    "saved", [{}, {"name": "gps"}, {"name": ["ntp"]}, {"name": "ntp", "configuration": 5}]
)
def test_settings_of_no_clock_are_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="`time_source` must be named"):
        time_source_from_dict(saved)


def test_settings_with_an_unknown_option_are_refused() -> None:
    saved = {"name": "ntp", "configuration": {"servers": 3}}
    with pytest.raises(ConfigurationError, match=r"unknown options \['servers'\] for NtpClock"):
        time_source_from_dict(saved)
