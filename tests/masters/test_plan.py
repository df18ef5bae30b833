import itertools
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.cases import cases

from sparkwright.masters import (
    Exchange,
    ParameterAveragingTrainingMaster as Averaging,
    SharedTrainingMaster,
    TrainingPlan,
)
from sparkwright.masters.plan import calls, epoch_order, minibatch_count
from sparkwright.updates import TargetSparsity

# Frequencies by the epoch that each begins with.
SCHEDULES = st.builds(
    lambda first, later: {1: first} | dict(sorted(later.items())),
    st.integers(1, 12),
    st.dictionaries(st.integers(2, 9), st.integers(1, 12), max_size=3),
)
plans = st.builds(
    TrainingPlan,
    rows=st.lists(st.integers(0, 500), max_size=6).map(tuple),
    batch_size=st.integers(1, 40),
    averaging_frequency=st.integers(1, 12),
    epochs=st.integers(1, 3),
)


@given(plan=plans, schedule=SCHEDULES, first=st.integers(0, 9), epochs=st.integers(0, 9))
def test_an_epochs_rounds_follow_the_last_change_of_frequency(plan, schedule, first, epochs):
    plan = replace(plan, averaging_frequency=schedule, first_epoch=first)
    rounds = []
    for epoch in range(first, first + epochs):
        frequency = next(schedule[n] for n in range(epoch + 1, 0, -1) if n in schedule)
        rounds.append(-(-max(plan.minibatches, default=0) // frequency))
    assert [plan.rounds_in(epoch) for epoch in range(first, first + epochs)] == rounds


def test_a_plan_of_uneven_workers_and_of_the_options_of_a_master():
    plan = TrainingPlan(rows=(70, 10, 0), batch_size=10, averaging_frequency=5, epochs=1)
    assert (plan.workers, plan.minibatches, plan.rounds) == (3, (7, 1, 0), 2)
    assert (plan.idle_workers, plan.idle_fraction) == ((2,), pytest.approx(13 / 21))
    master = Averaging(batch_size_per_worker=7, averaging_frequency=3)
    assert master.plan([10, 20], epochs=4) == TrainingPlan(
        rows=(10, 20), batch_size=7, averaging_frequency=3, epochs=4
    )


@given(
    rows=st.integers(0, 300),
    seed=st.integers(0, 2**63),
    epoch=st.integers(0, 50),
    worker=st.integers(0, 50),
)
def test_an_epochs_order_is_a_permutation_that_depends_on_nothing_else(rows, seed, epoch, worker):
    order = epoch_order(rows, seed=seed, epoch=epoch, worker=worker, shuffle=True)
    assert order.dtype == np.int64
    assert sorted(order) == list(range(rows))
    np.random.seed(0)
    again = epoch_order(rows, seed=seed, epoch=epoch, worker=worker, shuffle=True)
    np.testing.assert_array_equal(order, again)
    unshuffled = epoch_order(rows, seed=seed, epoch=epoch, worker=worker, shuffle=False)
    np.testing.assert_array_equal(unshuffled, range(rows))


def test_each_epoch_worker_and_seed_has_an_order_that_versions_keep():
    orders = {
        epoch_order(50, seed=seed, epoch=epoch, worker=worker, shuffle=True).tobytes()
        for seed, epoch, worker in itertools.product(range(3), repeat=3)
    }
    assert len(orders) == 27
    # A replacement continues in the order that its predecessor began; so does a resumed run.
    order = epoch_order(10, seed=7, epoch=1, worker=2, shuffle=True)
    assert order.tolist() == [4, 1, 7, 2, 5, 3, 6, 8, 9, 0]


@given(
    rows=st.integers(0, 200),
    batch_size=st.integers(1, 50),
    position=st.integers(0, 60),
    minibatches=st.integers(0, 20),
)
def test_calls_cover_their_minibatches_exactly_once(rows, batch_size, position, minibatches):
    order = np.random.default_rng(rows).permutation(rows)
    found = list(calls(order, position=position, minibatches=minibatches, batch_size=batch_size))
    flat = np.concatenate([np.empty(0, np.int64), *(block.ravel() for block in found)])
    start = position * batch_size
    np.testing.assert_array_equal(flat, order[start : start + minibatches * batch_size])
    assert all(block.ndim == 2 and block.size for block in found)
    assert sum(len(block) for block in found) == max(
        0, min(minibatches, minibatch_count(rows, batch_size) - position)
    )
    assert all(block.shape[1] == batch_size for block in found[:-1])
    assert len(found) <= 2


def by_ring(*what, **options):
    return Exchange(what=what, **{"every": 5, "precision": "float32", "among": "ring", **options})


@cases(
    "master, exchange",
    (Averaging(averaging_frequency=7), by_ring("parameters", "moments", every=7)),
    (Averaging(updater="reset", communication="spark"), by_ring("parameters", among="spark")),
    (
        Averaging(updater="local", exchange_precision="int8"),
        by_ring("parameters", precision="int8", density=65 / 256),
    ),
    (
        SharedTrainingMaster(threshold=TargetSparsity(target=1e-3), minibatches_per_message=2),
        by_ring(
            *("residuals", "moments"), every=2, precision="threshold", density=1e-3, among="mesh"
        ),
    ),
    ids=["averaging", "without the optimizer's state", "rounded", "sharing"],
)
def test_plan_follows_from_the_exchanged_data(master, exchange):
    assert master.exchange == exchange
    plan = master.plan([160, 320])
    assert plan.kind == exchange.kind
    # With sharing all minibatches of the worker with most data.
    assert plan.averaging_frequency == (exchange.every if plan.kind == "averaging" else 20)
