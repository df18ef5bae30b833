import numpy as np
import pytest
from tests.chaos import counting, faults
from tests.chaos.experiments import Experiment
from tests.waiting import wait_until

import sparkwright as sw

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(240)]

# Of both masters in the long form.
BOTH = ["averaging", pytest.param("sharing", marks=pytest.mark.slow)]
LONG = 400  # epochs: such a run is stopped


def has_averaged(watched, count=10):
    wait_until(lambda: watched.most_averagings >= count, 60)


def goes_on(watched, count=10):
    """Wait until so many more minibatches are done on each worker."""
    before = {each.worker: each.steps for each in watched.run.status.workers}
    wait_until(
        lambda: all(w.steps >= before[w.worker] + count for w in watched.run.status.workers), 120
    )


def executor_of(watched, worker):
    trainer = faults.trainer_of(watched.run, worker)
    assert trainer is not None
    executor = faults.executor_of(trainer)
    assert executor is not None
    return executor


@pytest.mark.parametrize("master", BOTH)
def test_a_worker_that_fails_for_good_ends_the_run_with_the_last_average(
    laboratory, report, master
):
    """It dies of the same example each time, while the others wait for its replacement."""
    laboratory.ready()
    switch = laboratory.folder / "deadly"
    experiment = Experiment(
        master=master, fault="kill each time", moment="epoch end", grace_s=60, hopeless=True
    )
    watched = laboratory.start(experiment, counting.KillAtExample(str(switch)), epochs=LONG)
    has_averaged(watched)
    switch.touch()
    verdict = laboratory.verdict(watched, limit_s=150)
    report(verdict)
    assert verdict.evidence.state == "failed"
    assert "signal 9" in verdict.evidence.error


@pytest.mark.parametrize("fault", ["pause", pytest.param("hold the GIL", marks=pytest.mark.slow)])
def test_stalled_driver_evicts_no_worker(laboratory, report, fault):
    """Several times: whether its clock or its sockets come first afterwards, chance decides."""
    laboratory.ready()
    experiment = Experiment(victim="driver", fault=fault, moment="epoch end")
    watched = laboratory.start(experiment, epochs=LONG)
    has_averaged(watched)
    for _ in range(4):
        faults.stall_this_process(fault, 4)
        goes_on(watched, 3)
    watched.stop()
    report(laboratory.verdict(watched))
    assert watched.losses == 0


def test_a_worker_is_replaced_after_the_shuffle_of_its_data_was_lost(laboratory, report):
    laboratory.ready()
    experiment = Experiment(victim="executor", fault="kill twice", moment="epoch end", grace_s=0.2)
    watched = laboratory.start(experiment, epochs=LONG)
    has_averaged(watched)
    holder = faults.executor_with_shuffle(laboratory.spark)
    hosting = {executor_of(watched, worker).pid for worker in range(counting.WORKERS)}
    first = executor_of(watched, 0)
    holder.kill()
    if holder.pid not in hosting:
        first.kill()
    assert watched.until(lambda status: any(each.restarts for each in status.workers))
    goes_on(watched)
    # The retry of the stage asks for tasks of workers that are there: they are refused.
    faults.wait_until_tasks_settle(laboratory.spark)
    survivor = next(each for each in watched.run.status.workers if not each.restarts)
    executor_of(watched, survivor.worker).kill()
    is_replaced = watched.until(lambda status: status.workers[survivor.worker].restarts == 1)
    if is_replaced:
        goes_on(watched)
    watched.stop()
    report(laboratory.verdict(watched, limit_s=240))
    assert is_replaced


@pytest.mark.parametrize("master", BOTH)
def test_parameters_that_become_nan_in_the_last_minibatch_are_not_delivered(
    laboratory, report, master
):
    laboratory.ready()
    experiment = Experiment(
        master=master, fault="NaN parameters", moment="final delivery", hopeless=True
    )
    # With sharing, workers do not all do the same number.
    last = counting.EXAMPLES // counting.WORKERS // counting.BATCH * 3 - 2 * (master == "sharing")
    poison = counting.PoisonAt(str(laboratory.folder / "poisoned"), at=last)
    watched = laboratory.start(experiment, poison, epochs=3)
    verdict = laboratory.verdict(watched)
    assert (laboratory.folder / "poisoned").exists()
    report(verdict)
    assert verdict.evidence.error


@pytest.mark.parametrize("master", BOTH)
def test_a_run_whose_worker_hangs_can_be_stopped(laboratory, report, master):
    laboratory.ready()
    switch = laboratory.folder / "hangs"
    experiment = Experiment(master=master, fault="hang", moment="stop", hopeless=True)
    hook = counting.HangAtExample(str(switch))
    watched = laboratory.start(experiment, hook, epochs=LONG, stall_timeout_s=3)
    has_averaged(watched)
    switch.touch()
    try:
        assert watched.until(lambda status: any(w.state == "stalled" for w in status.workers))
        watched.stop()
        report(laboratory.verdict(watched, limit_s=watched.seconds + 45))
    finally:
        switch.unlink()
        for trainer in faults.trainers(laboratory.spark):
            trainer.kill()  # one of them sleeps on


@pytest.mark.parametrize("workers", [1, counting.WORKERS])
def test_sharing_delivers_residuals_below_the_threshold(laboratory, workers):
    """Nothing is ever sent; the mean of the replicas holds it all, in checkpoints, too."""
    laboratory.ready()
    experiment = Experiment(master="sharing", fault="none", moment="checkpoint")
    never = sw.FixedThreshold(threshold=2 * counting.EPOCHS / counting.BATCH)

    def finish(epochs, resume=None):
        return laboratory.start(
            experiment, pace_s=0.0, epochs=epochs, resume=resume, workers=workers, threshold=never
        ).run.wait(60)

    finish(4)
    model = finish(counting.EPOCHS, str(laboratory.folder / "checkpoints"))
    np.testing.assert_allclose(counting.counts(model)[1:], counting.EPOCHS / workers, rtol=1e-5)


@pytest.mark.parametrize("master", BOTH)
def test_training_continues_from_the_last_checkpoint_if_all_workers_die(laboratory, report, master):
    laboratory.ready()
    experiment = Experiment(master=master, fault="kill all", moment="checkpoint")
    watched = laboratory.start(experiment)
    assert watched.until(
        lambda _: len(list((laboratory.folder / "checkpoints").glob("*.swc"))) >= 3
    )
    faults.kill_trainers(watched.run, range(counting.WORKERS))
    report(laboratory.verdict(watched))
    assert watched.losses >= counting.WORKERS
    assert not watched.restarted


@pytest.mark.slow
@pytest.mark.parametrize("master", ["averaging", "sharing"])
def test_a_killed_drivers_run_is_resumed(laboratory, report, master):
    experiment = Experiment(master=master, victim="driver", fault="kill", moment="checkpoint")
    report(laboratory.perform(experiment))
