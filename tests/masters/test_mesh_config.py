from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparkwright.errors import ConfigurationError
from sparkwright.masters import MeshConfig


def test_without_ports_any_free_one_is_taken() -> None:
    assert list(MeshConfig().port_numbers) == [0]


@given(first=st.integers(1, 65535), last=st.integers(1, 65535))
def test_a_span_of_ports_includes_both_ends(first: int, last: int) -> None:
    first, last = sorted([first, last])
    assert MeshConfig(ports=f"{first}-{last}").port_numbers == range(first, last + 1)
    assert MeshConfig(ports=first).port_numbers == range(first, first + 1)
    assert MeshConfig(ports=str(first)).port_numbers == range(first, first + 1)


@pytest.mark.parametrize(
    "ports",
    [
        *(0, -5, 65536, "0-10", "65000-65536", "20-10", "a-b", "", "1-2-3", "-", True, 1.5, []),
        *("env:", "env:A B", "env:1A", "env:A=B", "ENV:A", "$PORT", "٣", "1_0"),
    ],
)
def test_ports_that_do_not_exist_are_refused(ports: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        MeshConfig(ports=ports)
    assert str(refused.value).startswith("`ports` must be ")
    assert str(ports) in str(refused.value).partition("Received: ports=")[2]


@pytest.mark.parametrize("mask", ["10.0.0.0/16", "10.0.3.4/16", "192.168.0.1", "0.0.0.0/0"])
def test_a_mask_is_a_network(mask: str) -> None:
    assert MeshConfig(network_mask=mask).network_mask == mask


@pytest.mark.parametrize("mask", ["", "10.0.0/16", "10.0.0.0/33", "localhost", "fe80::/10"])
def test_what_is_no_network_is_refused(mask: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        MeshConfig(network_mask=mask)
    assert str(refused.value).startswith(
        "`network_mask` must be an IPv4 network such as 10.0.0.0/16. "
        f"Received: network_mask={mask!r} ("
    )


# -- ports from the environment -------------------------------------------------------------


@given(first=st.integers(1, 65535), last=st.integers(1, 65535))
def test_each_machines_environment_may_say_its_ports(first: int, last: int) -> None:
    first, last = sorted([first, last])
    mesh = MeshConfig(ports="env:TRAINING_PORT")
    assert mesh.ports_from({"TRAINING_PORT": f"{first}-{last}"}) == range(first, last + 1)
    assert mesh.ports_from({"TRAINING_PORT": f" {first}\n"}) == range(first, first + 1)


@pytest.mark.parametrize("ports", [None, 50_000, "50000-50100"])
def test_fixed_ports_do_not_ask_the_environment(ports: Any) -> None:
    mesh = MeshConfig(ports=ports)
    assert mesh.ports_from({"ports": "9", "50000": "9"}) == mesh.port_numbers


def test_a_missing_variable_is_named_with_a_remedy() -> None:
    with pytest.raises(ConfigurationError) as refused:
        MeshConfig(ports="env:TRAINING_PORT").ports_from({"TRAINING_PORTS": "50000"})
    assert str(refused.value) == (
        "`ports` names an environment variable that is not set on this machine. Received: "
        "ports='env:TRAINING_PORT'. Set TRAINING_PORT where driver and workers start, on Spark "
        "also with `spark.executorEnv.TRAINING_PORT`."
    )


@pytest.mark.parametrize(
    "text", ["", "any", "0", "65536", "20-10", "1-2-3", "env:OTHER", "٣", "1_0"]
)
def test_a_variable_that_holds_no_ports_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        MeshConfig(ports="env:TRAINING_PORT").ports_from({"TRAINING_PORT": text})
    assert str(refused.value) == (
        "the environment variable TRAINING_PORT must hold a number from 1 to 65535 or a span such "
        f"as \"50000-50100\". Received: TRAINING_PORT={text!r}, from ports='env:TRAINING_PORT'."
    )


def test_ports_that_the_environment_decides_are_no_fixed_numbers() -> None:
    mesh = MeshConfig(ports="env:TRAINING_PORT")
    with pytest.raises(ConfigurationError, match=r"Ask `ports_from\(os\.environ\)`"):
        _ = mesh.port_numbers


# -- the shape of the mesh ------------------------------------------------------------------


def test_the_limits_themselves_are_allowed() -> None:
    mesh = MeshConfig(mode="mesh", max_downstreams=64, chunk_bytes=1024, max_pending_bytes=1024)
    assert (mesh.max_downstreams, mesh.chunk_bytes, mesh.max_pending_bytes) == (64, 1024, 1024)
