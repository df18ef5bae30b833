"""What is foretold of many workers agrees with arithmetic, with `prospect` and with limits."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    ExchangeCosts,
    MeshConfig,
    ParameterAveragingTrainingMaster,
    Scaling,
    ScalingCosts,
    SharedTrainingMaster,
    TrainingMaster,
    predict_scaling,
    prospect,
)

masters: st.SearchStrategy[TrainingMaster] = st.one_of(
    st.builds(
        ParameterAveragingTrainingMaster,
        averaging_frequency=st.integers(1, 50),
        communication=st.sampled_from(["ring", "spark"]),
    ),
    st.builds(
        SharedTrainingMaster,
        minibatches_per_message=st.none() | st.integers(1, 10),
        mesh=st.builds(MeshConfig, mode=st.sampled_from(["plain", "mesh"])),
    ),
)
costs = st.builds(
    ScalingCosts,
    exchange=st.builds(ExchangeCosts, bandwidth_bytes_per_s=st.floats(1e7, 1e11)),
    jitter=st.floats(0, 0.9),
    cores=st.none() | st.integers(1, 64),
)
seconds, sizes = st.floats(1e-4, 10), st.integers(1, 10**10)


@given(masters, seconds, sizes, costs)
def test_n_workers_are_at_most_n_times_as_fast_and_one_is_as_fast_as_one(
    master: TrainingMaster, step_s: float, size: int, known: ScalingCosts
) -> None:
    found = predict_scaling(master, step_s=step_s, vector_bytes=size, costs=known)
    assert found.points[0].speed_up == pytest.approx(1)
    for point in found.points:
        assert 0 < point.speed_up <= point.workers * (1 + 1e-9)
        parts_s = point.training_s + point.waiting_s + point.exchange_s
        assert point.interval_s == pytest.approx(max(parts_s, point.driver_s))
        assert point.efficiency == pytest.approx(point.training_s / point.interval_s)
    assert Scaling.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@given(masters, seconds, sizes, st.floats(1.01, 100))
def test_a_faster_network_is_never_slower(
    master: TrainingMaster, step_s: float, size: int, faster: float
) -> None:
    slow, fast = (
        predict_scaling(master, step_s=step_s, vector_bytes=size, bandwidth_bytes_per_s=bandwidth)
        for bandwidth in (1e9, 1e9 * faster)
    )
    for a, b in zip(slow.points, fast.points, strict=True):
        assert b.speed_up >= a.speed_up * (1 - 1e-9)


@given(st.integers(2, 40), seconds, sizes, st.integers(1, 50))
def test_averaging_is_what_prospect_says(
    workers: int, step_s: float, size: int, frequency: int
) -> None:
    master = ParameterAveragingTrainingMaster(averaging_frequency=frequency)
    point = predict_scaling(master, step_s=step_s, vector_bytes=size, workers=[workers]).points[0]
    one = prospect(master, workers=workers, vector_bytes=size, step_s=step_s)
    assert point.exchange_s == one.exchange_s
    assert point.training_s + point.exchange_s == pytest.approx(one.interval_s)


def test_a_ring_costs_twice_the_vector_and_two_steps_a_worker() -> None:
    exact = ExchangeCosts(bandwidth_bytes_per_s=1e9, latency_s=1e-3, averaging_s_per_byte=1e-9)
    found = predict_scaling(
        ParameterAveragingTrainingMaster(averaging_frequency=10, save_updater=False),
        step_s=0.1,
        vector_bytes=10**8,
        updater_bytes=10**8,
        workers=[4],
        costs=ScalingCosts(exchange=exact),
    ).at(4)
    # 100 MB read and written, 2 x 3/4 of it sent, 6 steps of a millisecond.
    assert found.exchange_s == pytest.approx(0.1 + 0.15 + 0.006)
    assert found.speed_up == pytest.approx(4 * 1.0 / 1.256)
    assert found.bytes_per_s == pytest.approx(1.5e8 / 1.256)


def test_sharing_takes_over_an_update_of_each_of_the_others() -> None:
    master = SharedTrainingMaster(minibatches_per_message=1)
    known = ScalingCosts(update_s=1e-3, update_s_per_byte=1e-12)
    two, ten = (
        predict_scaling(master, step_s=1.0, vector_bytes=10**4, workers=[n], costs=known).points[0]
        for n in (2, 10)
    )
    assert ten.exchange_s - two.exchange_s == pytest.approx(8e-3, rel=0.01)


def test_averaging_waits_for_the_slowest_and_sharing_does_not() -> None:
    known = ScalingCosts(jitter=0.2)
    waits = [
        predict_scaling(master, step_s=0.1, vector_bytes=1000, costs=known).at(1024).waiting_s
        for master in (
            ParameterAveragingTrainingMaster(averaging_frequency=4),
            SharedTrainingMaster(),
        )
    ]
    assert waits == [pytest.approx(0.2 * 0.1 * 2 * 3.723, rel=1e-3), 0.0]


def test_a_thousand_quick_workers_are_held_up_by_the_driver() -> None:
    master = SharedTrainingMaster(mesh=MeshConfig(mode="mesh"))
    known = ScalingCosts(update_s=1e-9, update_s_per_byte=1e-15)
    options: dict[str, Any] = {"step_s": 0.1, "vector_bytes": 1000, "costs": known}
    held = predict_scaling(master, **options)
    assert held.at(1024).bound == "driver"
    assert held.at(64).bound == "exchange"
    assert held.most_workers(0.5) < 1024
    # Larger pieces of work are asked for less often.
    larger = predict_scaling(replace(master, piece_minibatches=100), **options)
    assert larger.at(1024).speed_up > 2 * held.at(1024).speed_up


def test_pieces_of_a_given_size_are_asked_for_again_and_again_however_small() -> None:
    """Only those of no given size are made larger for who is quick."""
    known = ScalingCosts(event_s=1e-9, piece_s_per_worker=1e-6)
    options: dict[str, Any] = {"step_s": 0.01, "vector_bytes": 1000, "costs": known}
    for minibatches in (1, 2, 50):
        master = SharedTrainingMaster(minibatches_per_message=1, piece_minibatches=minibatches)
        point = predict_scaling(master, workers=[100], **options).points[0]
        assert point.driver_s == pytest.approx(100 * 100 * 1e-6 / minibatches, rel=1e-3)
    quick = SharedTrainingMaster(minibatches_per_message=1)
    point = predict_scaling(quick, workers=[100], **options).points[0]
    busy_s = point.training_s + point.exchange_s
    assert point.driver_s == pytest.approx(100 * 100 * 1e-6 * busy_s / 0.1, rel=1e-3)


def test_a_message_is_at_most_a_piece() -> None:
    for minibatches, expected in ((1, 1), (3, 3), (9, 5)):
        master = SharedTrainingMaster(piece_minibatches=minibatches)
        found = prospect(master, workers=2, vector_bytes=1000, step_s=0.001)
        assert found.minibatches_per_exchange == expected


def test_on_shared_cores_workers_wait_for_one_another() -> None:
    alone, shared = (
        predict_scaling(
            ParameterAveragingTrainingMaster(averaging_frequency=1),
            step_s=0.1,
            vector_bytes=10**7,
            costs=ScalingCosts(cores=cores, processor_share=0.25),
        )
        for cores in (None, 2)
    )
    assert shared.at(2) == alone.at(2)
    assert shared.at(8).exchange_s == pytest.approx(4 * alone.at(8).exchange_s)
    assert shared.at(8).waiting_s == pytest.approx(3 * 0.25 * 0.1)


def test_the_table_names_what_bounds_and_finds_a_number_of_workers() -> None:
    found = predict_scaling(
        ParameterAveragingTrainingMaster(batch_size_per_worker=32),
        step_s=0.1,
        vector_bytes=10**8,
        workers=[1, 8],
    )
    lines = found.describe().splitlines()
    assert lines[0] == "averaging, minibatches of 100 ms, 100,000,000 bytes"
    assert lines[-1].split()[0] == "8"
    assert lines[-1].endswith("exchange")
    assert repr(found) == found.describe()
    assert found.examples_per_s(1) == pytest.approx(320)
    with pytest.raises(ConfigurationError, match=r"`workers` must be one of \[1, 8\]"):
        found.at(2)


@pytest.mark.parametrize(
    "wrong",
    [{"step_s": 0}, {"vector_bytes": 0}, {"workers": [0]}, {"bandwidth_bytes_per_s": -1}],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    options: dict[str, Any] = {"step_s": 0.1, "vector_bytes": 1000, **wrong}
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        predict_scaling(ParameterAveragingTrainingMaster(), **options)


@pytest.mark.parametrize(
    "wrong", [{"jitter": 1.0}, {"event_s": 0}, {"cores": 0}, {"processor_share": 2}]
)
def test_constants_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        ScalingCosts(**wrong)
