import pytest

import sparkwright as sw


def test_a_server_may_have_a_port():
    assert sw.NtpClock().address == ("pool.ntp.org", 123)
    assert sw.NtpClock(server="10.0.0.1:1123").address == ("10.0.0.1", 1123)


@pytest.mark.parametrize("server", ["", "host:", "host:0", "host:²", 123])
def test_a_server_is_a_host_with_a_possible_port(server):
    with pytest.raises(sw.ConfigurationError, match="`server` must be"):
        sw.NtpClock(server=server)
