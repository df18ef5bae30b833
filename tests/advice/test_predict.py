import json
import math
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.advice import predict
from sparkwright.masters import ScalingCosts

masters = st.one_of(
    st.builds(
        sw.ParameterAveragingTrainingMaster,
        batch_size_per_worker=st.integers(1, 300),
        averaging_frequency=st.integers(1, 50),
        updater=st.sampled_from(["average", "reset"]),
        communication=st.sampled_from(["ring", "driver", "spark"]),
    ),
    st.builds(
        sw.SharedTrainingMaster,
        batch_size_per_worker=st.integers(1, 300),
        minibatches_per_message=st.none() | st.integers(1, 10),
        max_staleness=st.none() | st.integers(0, 10),
        communication=st.sampled_from(["mesh", "driver"]),
        mesh=st.builds(sw.MeshConfig, mode=st.sampled_from(["plain", "mesh"])),
    ),
)
row_counts = st.lists(st.integers(0, 100_000), min_size=1, max_size=40)
seconds = st.floats(1e-5, 10)


@given(masters, row_counts, st.integers(1, 10**10), seconds)
def test_nothing_is_faster_than_all_workers_together(master, rows, size, step_s):
    found = predict(master, rows=rows, vector_bytes=size, step_s=step_s)
    assert found.plan == master.plan(rows)
    assert found.workers == len(rows)
    if not sum(rows):
        assert found.speed_up is None
        return
    assert found.speed_up is not None
    assert found.epoch_s is not None
    assert 0 < found.speed_up <= len(rows) * (1 + 1e-9)
    assert found.epoch_s * found.speed_up == pytest.approx(sum(found.plan.minibatches) * step_s)
    json.dumps(found.to_dict(), allow_nan=False)


@given(masters, st.integers(2, 64), st.integers(1, 10**10), seconds, st.floats(1.01, 100))
def test_longer_minibatches_never_pay_less(master, workers, size, step_s, longer):
    order = ["hardly", "partly", "well"]
    quick, slow = (
        predict(master, workers=workers, vector_bytes=size, step_s=each)
        for each in (step_s, step_s * longer)
    )
    if isinstance(master, sw.SharedTrainingMaster) and master.minibatches_per_message is None:
        return  # quick minibatches share a message: between two steps of that the share may fall
    assert order.index(quick.pays) <= order.index(slow.pays)


@given(masters, st.integers(2, 64), st.integers(1, 10**9))
def test_at_the_worthwhile_step_nine_tenths_of_the_time_are_training(master, workers, size):
    wanted_s = predict(master, workers=workers, vector_bytes=size).worthwhile_step_s
    assert wanted_s is not None
    found = predict(master, workers=workers, vector_bytes=size, step_s=wanted_s)
    assert found.speed_up is not None
    assert found.speed_up >= 0.9 * workers * (1 - 1e-6)


def test_the_rule_of_thumb_decides_with_the_arithmetic_beside_it():
    def said(step_s, **options):
        master = sw.ParameterAveragingTrainingMaster(**options)
        found = predict(master, workers=4, vector_bytes=2_000_000, step_s=step_s)
        return f"{found.pays}: {found.verdict}"

    assert said(0.12).startswith(
        "well: 5 minibatches of 120 ms take 600 ms, an averaging of 1.91 MiB"
    )
    assert "4 workers are at best 4.0 times as fast as one; minibatches of 100 ms" in said(0.12)
    assert said(0.01).startswith("partly: 5 minibatches of 10 ms take 50 ms")
    assert said(0.001).startswith("hardly: 5 minibatches of 1 ms take 5 ms")
    # A Spark job for each averaging costs more than the minibatch.
    slow = said(0.12, averaging_frequency=1, communication="spark")
    assert slow.endswith("exchanges cost more than additional workers gain.")
    assert slow.startswith("hardly: 1 minibatch of 120 ms, an averaging of 1.91 MiB about 353 ms")


def test_driver_relay_carries_the_traffic_of_all_workers():
    """The ring's 2 (n - 1) / n vectors of each worker, from n workers, by one network card."""
    costs = ScalingCosts(bandwidth_bytes_per_s=1e9, averaging_s_per_byte=1e-15)
    sizes = {}
    for workers in (2, 8):
        for way in ("ring", "driver"):
            master = sw.ParameterAveragingTrainingMaster(communication=way, updater="reset")
            found = predict(
                master, vector_bytes=100_000_000, step_s=0.1, workers=workers, costs=costs
            ).at(workers)
            sizes[way, workers] = found.exchange_s, found.driver_s
        assert sizes["driver", workers][0] == pytest.approx(
            workers * sizes["ring", workers][0], rel=0.02
        )
    passed_on = 2 * 7 * 100_000_000
    extra_s = sizes["driver", 8][1] - sizes["ring", 8][1]
    assert extra_s == pytest.approx(passed_on * ScalingCosts().relay_s_per_byte, rel=0.2)


def test_without_measurements_only_the_condition_is_reported():
    master = sw.ParameterAveragingTrainingMaster()
    found = predict(master, workers=2, vector_bytes=1_720_000)
    assert (found.pays, found.speed_up, found.epoch_s) == ("unknown", None, None)
    assert found.verdict.startswith("More workers pay off if one minibatch takes")
    assert predict(master, workers=2).verdict.endswith("measure it.")
    assert predict(master, workers=2, step_s=0.02).verdict == (
        "A minibatch takes 20 ms; minibatches of about 10 ms scale less than in proportion."
    )
    assert predict(master, rows=[9], vector_bytes=1, step_s=1).verdict.startswith("One worker")
    nothing = predict(master, rows=[0, 0], vector_bytes=1000, step_s=1)
    assert nothing.verdict == "No worker has data: there is nothing to train."
    assert nothing.pays == "unknown"
    shared = predict(sw.SharedTrainingMaster(), workers=2, vector_bytes=1_720_000)
    assert "a message takes about" in shared.verdict


def test_rounds_short_batches_and_idle_workers_are_those_of_the_plan():
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10, averaging_frequency=5)
    found = predict(master, rows=[72, 10, 0])
    assert found.exchanges == found.plan.rounds == 2
    assert found.examples_per_exchange == 60
    assert found.short_batches == (2,)
    assert found.plan.idle_workers == (2,)
    assert found.rows_known
    assert not predict(master, workers=3).rows_known
    assert predict(master, workers=3).examples_per_exchange == 150
    for minibatches, expected in ((1, 1), (3, 3), (9, 5)):  # a message is at most a piece
        shared = sw.SharedTrainingMaster(piece_minibatches=minibatches)
        assert predict(shared, workers=2, step_s=0.001).minibatches_per_exchange == expected


AVERAGING = sw.ParameterAveragingTrainingMaster()
NETWORK = ("bandwidth_bytes_per_s", "latency_s")
two_workers = partial(predict, AVERAGING, workers=2)


@cases(
    "predict, wrong",
    *((partial(predict, AVERAGING), wrong) for wrong in ({"workers": 0}, {"rows": []}, {})),
    *((two_workers, {name: 0}) for name in ("step_s", "vector_bytes", "target")),
    *((two_workers, wrong) for wrong in ({"updater_bytes": -1}, {"target": 1.5})),
    *((ScalingCosts().with_network, {name: math.nan}) for name in NETWORK),
    *((two_workers(step_s=1, vector_bytes=4).at, {"workers": each}) for each in (0, "2")),
    (two_workers().at, {"workers": 2}),
    *((ScalingCosts, wrong) for wrong in ({"jitter": 1.0}, {"event_s": 0}, {"cores": 0})),
)
def test_invalid_options_raise(predict, wrong):
    with pytest.raises(sw.ConfigurationError, match="Received: "):
        predict(**wrong)


@cases(
    "rows, step_s, end",
    ([3200, 0], 0.2, "the rows are uneven: balance them."),
    ([3200, 1200], 0.2, "the rows are uneven: balance them."),
    ([3200, 3200], 0.2, "minibatches of 100 ms or more scale well."),
    ([3200, 0], 0.0005, "with minibatches of 1 ms or less, more workers hardly help."),
)
def test_uneven_rows_are_distinguished_from_costly_exchanges(rows, step_s, end):
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32)
    found = predict(master, rows=rows, vector_bytes=1_700_000, step_s=step_s)
    assert found.verdict.endswith(f"; {end}")


costs = st.builds(
    ScalingCosts,
    bandwidth_bytes_per_s=st.floats(1e7, 1e11),
    jitter=st.floats(0, 0.9),
    cores=st.none() | st.integers(1, 64),
)
longer_seconds, sizes = st.floats(1e-4, 10), st.integers(1, 10**10)


@given(masters, longer_seconds, sizes, costs)
def test_n_workers_are_at_most_n_times_as_fast_and_one_is_as_fast_as_one(
    master, step_s, size, known
):
    found = predict(master, workers=7, step_s=step_s, vector_bytes=size, costs=known)
    assert found.at(1).speed_up == pytest.approx(1)
    assert found.at(7) == found.point
    assert found.speed_up == pytest.approx(found.at(7).speed_up)
    for workers in (1, 2, 7, 64, 1024):
        point = found.at(workers)
        assert 0 < point.speed_up <= workers * (1 + 1e-9)
        parts_s = point.training_s + point.waiting_s + point.exchange_s
        assert point.interval_s == pytest.approx(max(parts_s, point.driver_s))
        assert point.efficiency == pytest.approx(point.training_s / point.interval_s)


def test_a_ring_costs_twice_the_vector_and_three_steps_a_worker():
    exact = ScalingCosts(bandwidth_bytes_per_s=1e9, latency_s=1e-3, averaging_s_per_byte=1e-9)
    found = predict(
        sw.ParameterAveragingTrainingMaster(averaging_frequency=10, updater="reset"),
        step_s=0.1,
        vector_bytes=10**8,
        updater_bytes=10**8,
        workers=4,
        costs=exact,
    ).at(4)
    # 100 MB read and written, 2 x 3/4 of it sent, 9 steps of a millisecond.
    assert found.exchange_s == pytest.approx(0.1 + 0.15 + 0.009)
    assert found.speed_up == pytest.approx(4 * 1.0 / 1.259)
    assert found.bytes_per_s == pytest.approx(1.5e8 / 1.259)


@cases(
    "options, sent_bytes, handling_s",
    ({"exchange_precision": "bfloat16"}, 5 * 10**7, 0.1 + 0.2),
    ({"exchange_precision": "int8"}, 25_390_625, 0.1 + 0.3),
    ({"outer_optimizer": sw.OuterOptimizer()}, 10**8, 0.1 + 0.4),
)
def test_rounding_and_an_outer_optimizer_cost_by_the_bytes_of_float32(
    options, sent_bytes, handling_s
):
    exact = ScalingCosts(
        bandwidth_bytes_per_s=1e9,
        latency_s=1e-12,
        averaging_s_per_byte=1e-9,
        bfloat16_s_per_byte=2e-9,
        int8_s_per_byte=3e-9,
        outer_s_per_byte=4e-9,
    )
    master = sw.ParameterAveragingTrainingMaster(updater="local", **options)
    found = predict(master, step_s=1.0, vector_bytes=10**8, workers=2, costs=exact).at(2)
    assert found.bytes_per_s * found.interval_s == pytest.approx(sent_bytes)
    assert found.exchange_s == pytest.approx(sent_bytes / 1e9 + handling_s)


def test_sharing_takes_over_an_update_of_each_of_the_others():
    master = sw.SharedTrainingMaster(minibatches_per_message=1)
    known = ScalingCosts(update_s=1e-3, update_s_per_byte=1e-12)
    two, ten = (
        predict(master, step_s=1.0, vector_bytes=10**4, workers=n, costs=known).at(n)
        for n in (2, 10)
    )
    assert ten.exchange_s - two.exchange_s == pytest.approx(8e-3, rel=0.01)


def test_averaging_waits_for_the_slowest_and_sharing_does_not():
    known = ScalingCosts(jitter=0.2)
    waits = [
        predict(master, workers=2, step_s=0.1, vector_bytes=1000, costs=known).at(1024).waiting_s
        for master in (
            sw.ParameterAveragingTrainingMaster(averaging_frequency=4),
            sw.SharedTrainingMaster(),
        )
    ]
    assert waits == [pytest.approx(0.2 * 0.1 * 2 * 3.723, rel=1e-3), 0.0]


def test_a_thousand_quick_workers_are_held_up_by_the_driver():
    master = sw.SharedTrainingMaster(mesh=sw.MeshConfig(mode="mesh"))
    known = ScalingCosts(update_s=1e-9, update_s_per_byte=1e-15)
    options = {"step_s": 0.1, "vector_bytes": 1000, "costs": known, "workers": 2}
    held = predict(master, **options)
    assert held.at(1024).bound == "driver"
    assert held.at(64).bound == "exchange"
    assert held.most_workers(0.5) < 1024
    # Larger pieces of work are asked for less often.
    larger = predict(replace(master, piece_minibatches=100), **options)
    assert larger.at(1024).speed_up > 2 * held.at(1024).speed_up


def test_on_shared_cores_workers_wait_for_one_another():
    alone, shared = (
        predict(
            sw.ParameterAveragingTrainingMaster(averaging_frequency=1),
            workers=2,
            step_s=0.1,
            vector_bytes=10**7,
            costs=ScalingCosts(cores=cores, processor_share=0.25),
        )
        for cores in (None, 2)
    )
    assert shared.at(2) == alone.at(2)
    assert shared.at(8).exchange_s == pytest.approx(4 * alone.at(8).exchange_s)
    assert shared.at(8).waiting_s == pytest.approx(3 * 0.25 * 0.1)


def test_number_of_workers_that_still_pays_is_found_and_shown():
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32)
    found = predict(master, workers=8, step_s=0.1, vector_bytes=10**8, target=0.1)
    assert found.most_workers(0.65) == 64
    assert found.most_workers(1) == 1
    row = next(line for line in str(found).splitlines() if line.startswith("8  "))
    assert row.split() == ["8", "5.6", "70%", "717", "ms", "217", "ms", "exchange"]
