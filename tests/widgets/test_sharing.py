import numpy as np
from tests.cases import cases

from sparkwright_widgets._contract import Sharing, sharing_of
from sparkwright_widgets._curve import EPOCH, MEAN, Curve


def test_only_a_gradient_sharing_run_is_sharing(run, sharing_run):
    assert sharing_of(run) is None
    assert sharing_of(sharing_run) == Sharing(batch_size=32)
    sharing_run.configuration = {}
    assert sharing_of(sharing_run) is None


def test_planned_minibatches_include_the_last_partial_one_per_shard(fake, run):
    workers = (fake.FakeWorker(worker=0, rows=65), fake.FakeWorker(worker=1, rows=64))
    run.set(epochs=3, workers=workers)
    assert Sharing(batch_size=32).planned(run.status) == 3 * (3 + 2)
    assert Sharing().planned(run.status) == 0
    run.set(workers=(*workers, fake.FakeWorker(worker=2, rows=0)))
    assert Sharing(batch_size=32).planned(run.status) == 0  # one has not come yet


def test_mean_covers_ten_minibatches_of_each_worker(sharing_run):
    for step in range(1, 21):
        for worker in (0, 1):
            sharing_run.report(worker, step, float(step <= 10) + worker, round=step)
    curve = Curve(sharing=True)
    curve.add_rows(sharing_run.log.rows())
    curve.finish()
    assert curve.lines()[MEAN].tolist() == [[5.5, 1.5], [15.5, 0.5]]


def test_mean_steps_never_decrease_when_a_worker_does_extra_work(sharing_run):
    for step in range(1, 31):
        sharing_run.report(0, step, 1.0, round=step)
    for step in range(1, 11):
        sharing_run.report(1, step, 1.0, round=step)
        sharing_run.report(1, step + 10, 1.0, epoch=2, round=step)
    curve = Curve(sharing=True)
    curve.add_rows(sharing_run.log.rows())
    curve.finish()
    assert curve.lines()[MEAN][:, 0].tolist() == [5.5, 15.5, 25.5, 25.5]


def test_message_lines_are_separate_from_loss_lines(sharing_run):
    for step in range(1, 4):
        sharing_run.report(1, step, 2.0, round=step, threshold=0.5, sparsity=0.01)
    curve = Curve(sharing=True)
    sent = np.concatenate([curve.add_rows(sharing_run.log.rows()), curve.finish()])
    assert list(curve.lines()) == [1, MEAN, EPOCH]
    assert {name: list(lines) for name, lines in curve.quantity_lines().items()} == {
        "examples_per_s": [1],
        "threshold": [1],
        "sparsity": [1],
    }
    assert curve.quantity_lines()["threshold"][1][-1].tolist() == [3, 0.5]
    assert sorted(curve.points().tolist()) == sorted(sent.tolist())


@cases("kind", "run", "sharing_run")
def test_unreported_minibatch_is_a_gap_without_a_warning(kind, request):
    run = request.getfixturevalue(kind)
    run.report(0, 1, 2.0, round=1)
    run.report(0, 2, np.nan, round=1, examples_per_s=np.nan)
    curve = Curve(sharing=kind == "sharing_run")
    curve.add_rows(run.log.rows())
    curve.finish()
    assert curve.not_finite is None
    assert curve.mean_loss == 2.0
    assert len(curve.lines()[0]) == 2
    assert np.isnan(curve.lines()[0][-1, 1])
