import re

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.cases import cases

import sparkwright as sw


@cases("mask", "", "10.0.0/16", "10.0.0.0/33", "localhost", "fe80::/10")
def test_invalid_networks_raise(mask):
    assert sw.MeshConfig(network_mask="10.0.3.4/16").network_mask == "10.0.3.4/16"
    with pytest.raises(sw.ConfigurationError, match=f"an IPv4 network.*network_mask={mask!r}"):
        sw.MeshConfig(network_mask=mask)


def test_without_ports_any_free_one_is_taken():
    assert list(sw.MeshConfig().ports_from({})) == [0]


@given(first=st.integers(1, 65535), last=st.integers(1, 65535))
def test_a_span_of_ports_includes_both_ends(first, last):
    first, last = sorted([first, last])
    assert sw.MeshConfig(ports=f"{first}-{last}").ports_from({}) == range(first, last + 1)
    assert sw.MeshConfig(ports=first).ports_from({}) == range(first, first + 1)
    assert sw.MeshConfig(ports=str(first)).ports_from({}) == range(first, first + 1)


@cases(
    "ports",
    *(0, 65536, "0-10", "65000-65536", "20-10", "a-b", "", "1-2-3", True, 1.5),
    *("env:", "env:A B", "ENV:A", "$PORT", "٣", "1_0"),
)
def test_ports_that_do_not_exist_are_rejected(ports):
    text = rf"^`ports` must be .*Received: ports=.*{re.escape(str(ports))}"
    with pytest.raises(sw.ConfigurationError, match=text):
        sw.MeshConfig(ports=ports)


@given(first=st.integers(1, 65535), last=st.integers(1, 65535))
def test_environment_of_each_machine_may_set_its_ports(first, last):
    first, last = sorted([first, last])
    mesh = sw.MeshConfig(ports="env:TRAINING_PORT")
    assert mesh.ports_from({"TRAINING_PORT": f"{first}-{last}"}) == range(first, last + 1)
    assert mesh.ports_from({"TRAINING_PORT": f" {first}\n"}) == range(first, first + 1)
    fixed = sw.MeshConfig(ports=first)
    assert fixed.ports_from({str(first): "9", "ports": "9"}) == range(first, first + 1)


@cases("text", None, "", "any", "65536", "20-10", "env:OTHER")
def test_a_variable_that_holds_no_ports_is_rejected(text):
    mesh = sw.MeshConfig(ports="env:TRAINING_PORT")
    environment = {} if text is None else {"TRAINING_PORT": text}
    expected = "not set on this machine" if text is None else f"Received: TRAINING_PORT={text!r}"
    with pytest.raises(sw.ConfigurationError, match=f"{expected}.*ports='env:TRAINING_PORT'"):
        mesh.ports_from(environment)


def test_the_limits_themselves_are_allowed():
    mesh = sw.MeshConfig(mode="mesh", max_downstreams=64, chunk_bytes=1024, max_pending_bytes=1024)
    assert (mesh.max_downstreams, mesh.chunk_bytes, mesh.max_pending_bytes) == (64, 1024, 1024)
