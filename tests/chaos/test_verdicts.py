from dataclasses import replace

import numpy as np
from tests.cases import cases
from tests.chaos.experiments import FAULTS, MOMENTS, Experiment, draw
from tests.chaos.verdicts import COLUMNS, Evidence, judge, table

GOOD = Evidence(
    experiment=Experiment(master="averaging"),
    state="done",
    error="",
    struck=True,
    stop_asked=False,
    losses=1,
    most_averagings=4,
    averagings=4,
    restarted=False,
    warnings=(),
    rounds=((2, 2),) * 4,
    untold=0,
    examples=32,
    epochs=2,
    # 8 minibatches of 2 examples, by 2 workers; each example twice, at half weight.
    counts=np.array([8.0] + [1.0] * 16),
    workers=2,
    seconds=3.0,
)
SHARED = replace(
    GOOD, experiment=Experiment(master="sharing"), counts=np.array([16.0] + [2.0] * 16), losses=0
)
# Alone in the first epoch; in the second, another worker helps.
JOINED = replace(
    GOOD,
    experiment=Experiment(master="averaging", joining=1),
    losses=0,
    rounds=((2,),) * 4 + ((2, 2),) * 2,
    counts=np.array([12.0] + [1.5] * 16),
)


def changed(index, value, counts=GOOD.counts):
    found = counts.copy()
    found[index] = value
    return found


@cases("seen", GOOD, SHARED, JOINED, ids=["averaging", "sharing", "joined"])
def test_run_with_correct_counts_passes(seen):
    assert judge(seen).remarks == {}


@cases(
    "seen, column",
    (replace(GOOD, state="hung"), "hangs"),
    (replace(GOOD, counts=changed(3, np.nan)), "wrong deliveries"),
    (replace(GOOD, counts=changed(0, 7.0)), "wrong deliveries"),
    (replace(GOOD, counts=GOOD.counts * 0), "averages lost"),
    (replace(GOOD, counts=changed(0, 7.0), rounds=((2, 2), (2,)) * 3), "wrong deliveries"),
    (replace(JOINED, counts=changed(5, 0.5, JOINED.counts)), "lost or doubled examples"),
    (replace(GOOD, averagings=3), "averages lost"),
    (replace(GOOD, examples=31), "lost or doubled examples"),
    (replace(GOOD, counts=changed(5, 1.5)), "lost or doubled examples"),
    (replace(SHARED, counts=changed(5, 1, SHARED.counts)), "lost or doubled examples"),
    (replace(GOOD, state="failed"), "silent failures"),
    (replace(GOOD, state="failed", error="it broke"), "silent failures"),
    (replace(GOOD, state="failed", error="in epoch 3"), "runs given up"),
    (replace(GOOD, state="stopped"), "silent failures"),
    (replace(GOOD, restarted=True), "silent failures"),
)
def test_faults_of_a_run_are_found(seen, column):
    assert column in judge(seen).remarks


def test_failed_run_may_end_with_an_error_and_its_average():
    hopeless = Experiment(hopeless=True)
    ended = replace(GOOD, experiment=hopeless, state="failed", error="after 4 averagings: it died")
    assert judge(ended).remarks == {}


def test_experiments_are_possible_and_twenty_cover_all_victims():
    for hosts in (False, True):
        drawn = [draw(seed, hosts=hosts) for seed in range(200)]
        assert drawn == [draw(seed, hosts=hosts) for seed in range(200)]
        for each in drawn:
            assert each.fault in FAULTS[each.victim]
            assert each.moment in MOMENTS
        victims = {each.victim for each in drawn}
        assert {each.victim for each in drawn[:20]} == victims
        assert {each.master for each in drawn[:20]} == {"averaging", "sharing", "spark"}


def test_table_counts_runs_by_fault():
    lines = table([judge(GOOD), judge(replace(GOOD, state="hung")), judge(SHARED)]).splitlines()
    assert len(lines) == 4
    assert all(name in lines[0] for name in COLUMNS)
    assert lines[-1].split() == ["all", "3", "0", "0", "1", "0", "0", "0", "0", "0"]
