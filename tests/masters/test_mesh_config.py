import dataclasses
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.masters.helpers import meshes

from sparkwright.errors import ConfigurationError
from sparkwright.masters import MeshConfig

DEFAULTS = {
    "network_mask": None,
    "controller_address": None,
    "ports": None,
    "rendezvous_timeout_s": 120.0,
    "queue_timeout_s": 600.0,
    "connect_timeout_s": 30.0,
    "peer_timeout_s": 15.0,
    "replacement_grace_s": 2.0,
    "replacement_timeout_s": None,
    "stall_timeout_s": 60.0,
    "replace_stalled": False,
    "mode": "plain",
    "max_downstreams": 8,
    "chunk_bytes": 1 << 20,
    "max_pending_bytes": 64 << 20,
    "authenticate": None,
    "encrypt": False,
}
TIMEOUTS = [name for name, value in DEFAULTS.items() if name.endswith("_s") and value]


def test_the_defaults_are_the_documented_ones() -> None:
    assert MeshConfig().to_dict() == DEFAULTS
    text = " ".join(str(MeshConfig.__doc__).split())
    for name in TIMEOUTS:
        documented = text.split(f" {name}: ")[1].split("default ")[1]
        assert documented.startswith(f"{DEFAULTS[name]:g}")


def test_to_dict_gives_what_makes_an_equal_one() -> None:
    mesh = MeshConfig(network_mask="10.0.0.0/8", ports="5000-5010", peer_timeout_s=60)
    assert MeshConfig(**mesh.to_dict()) == mesh
    assert set(mesh.to_dict()) == {field.name for field in dataclasses.fields(MeshConfig)}


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
    assert str(refused.value) == (
        '`ports` must be a number from 1 to 65535, a span such as "50000-50100" or "env:" and the '
        f"name of an environment variable. Received: ports={ports!r}."
    )


@pytest.mark.parametrize("name", TIMEOUTS)
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "5", None, True])
def test_a_time_out_must_be_a_positive_number(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        MeshConfig(**{name: value})
    assert str(refused.value) == (
        f"`{name}` must be a finite number of seconds greater than 0. Received: {name}={value!r}."
    )


def test_workers_need_time_for_a_sign_of_life() -> None:
    assert MeshConfig(peer_timeout_s=2).peer_timeout_s == 2
    with pytest.raises(ConfigurationError, match=r"Received: peer_timeout_s=1\.5\.$"):
        MeshConfig(peer_timeout_s=1.5)


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


@pytest.mark.parametrize("name", ["network_mask", "controller_address"])
def test_an_address_is_text(name: str) -> None:
    options: dict[str, Any] = {name: 167772160}
    with pytest.raises(ConfigurationError) as refused:
        MeshConfig(**options)
    assert str(refused.value) == f"`{name}` must be text or None. Received: {name}=167772160."


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


REFUSED: dict[str, list[Any]] = {
    "mode": ["ring", None, True],
    "max_downstreams": [0, -1, 8.0, "8", None, True, 65],
    "chunk_bytes": [0, 1023, 1e6, "1 MiB", None, True],
    "max_pending_bytes": [0, -1, 1e6, None, True, (1 << 20) - 1],
}


@pytest.mark.parametrize(("option", "value"), [(o, v) for o, vs in REFUSED.items() for v in vs])
def test_a_refusal_names_the_option_and_what_it_received(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        MeshConfig(**{option: value})
    assert str(refused.value).startswith(f"`{option}` must be ")
    assert f"Received: {option}={value!r}" in str(refused.value)


def test_the_limits_themselves_are_allowed() -> None:
    mesh = MeshConfig(mode="mesh", max_downstreams=64, chunk_bytes=1024, max_pending_bytes=1024)
    assert (mesh.max_downstreams, mesh.chunk_bytes, mesh.max_pending_bytes) == (64, 1024, 1024)


@given(mesh=meshes)
def test_json_and_back_gives_an_equal_one(mesh: MeshConfig) -> None:
    assert MeshConfig.from_dict(json.loads(json.dumps(mesh.to_dict()))) == mesh


def test_settings_left_out_take_their_defaults_and_unknown_ones_are_refused() -> None:
    assert MeshConfig.from_dict({}) == MeshConfig()
    with pytest.raises(ConfigurationError, match=r"^unknown options \['port'\] for MeshConfig\."):
        MeshConfig.from_dict({"port": 9})
    with pytest.raises(ConfigurationError, match=r"^settings must be a dict\."):
        MeshConfig.from_dict([])  # pyright: ignore[reportArgumentType]
