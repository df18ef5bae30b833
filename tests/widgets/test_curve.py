import numpy as np

from sparkwright_widgets._curve import CLOCK, EPOCH, MEAN, Curve
from sparkwright_widgets._quantities import MOST_METRICS, VALIDATION_PLACE


def test_one_row_gives_one_worker_point_and_the_start_of_its_epoch(run):
    run.report(1, step=1, loss=2.5)
    curve = Curve()
    told = [[EPOCH, 1, 1], [CLOCK, 1, np.float32(0.1)], [1, 1, 2.5]]
    assert curve.add_rows(run.log.rows()).tolist() == told
    assert curve.finish()[0].tolist() == [MEAN, 1, 2.5]
    assert curve.mean_loss == 2.5


def test_partial_minibatch_causes_no_spike_for_any_row_batching(run):
    for step in range(1, 21):
        is_last = step % 10 == 0
        for worker in (1, 0):
            run.report(
                worker,
                step,
                9.0 if is_last else 1.0,
                epoch=1 + (step > 10),
                round=(step - 1) % 10 + 1,
                examples=2 if is_last else 32,
            )
    whole, pieces = Curve(), Curve()
    whole.add_rows(run.log.rows())
    for row in range(40):
        pieces.add_rows(run.log.rows(row, row + 1))
    expected = np.where(np.arange(1, 21) % 10 == 0, (9 * 2 + 32) / 34, 1.0)
    for curve in (whole, pieces):
        curve.finish()
        assert list(curve.lines()) == [0, 1, MEAN, EPOCH]
        assert curve.lines()[EPOCH].tolist() == [[1, 1], [11, 2]]
        for line in (0, 1, MEAN):
            np.testing.assert_allclose(curve.lines()[line][:, 1], expected, rtol=1e-6)


def test_non_finite_partial_minibatches_remain_gaps(run):
    run.report(0, 1, 1.0)
    run.report(0, 2, np.nan, examples=2)
    run.report(0, 3, 5.0, examples=2)
    curve = Curve()
    curve.add_rows(run.log.rows())
    np.testing.assert_array_equal(curve.lines()[0][:, 1], np.float32([1.0, np.nan, 5.0]))


def test_each_step_has_the_time_of_its_first_log_entry(run):
    for worker, step in ((0, 1), (0, 2), (1, 1), (1, 2), (1, 3)):
        run.report(worker, step, 1.0)
    curve = Curve()
    curve.add_rows(run.log.rows(0, 2))
    curve.add_rows(run.log.rows(2))
    clock = curve.points()[curve.points()[:, 0] == CLOCK]
    np.testing.assert_allclose(clock[:, 1:], [[1, 0.1], [2, 0.2], [3, 0.3]], rtol=1e-6)
    assert CLOCK not in curve.lines()


def test_first_non_finite_loss_is_kept_and_others_are_counted(run):
    for step, loss in enumerate([1.0, np.nan, np.inf, 1.0, -np.inf], start=1):
        run.report(1, step, loss)
    curve = Curve()
    curve.add_rows(run.log.rows(0, 2))
    curve.add_rows(run.log.rows(2))
    found = curve.not_finite
    assert (found.worker, found.step, found.count) == (1, 2, 3)
    assert np.isnan(found.value)


def test_loss_beyond_float32_becomes_a_gap_without_a_warning(run):
    run.report(0, 1, 1e300)
    curve = Curve()
    assert np.isinf(curve.add_rows(run.log.rows())[-1, 2])


def test_validation_metrics_are_drawn_in_the_chart_of_their_metric(run, fake):
    run.report(0, 1, 1.0, accuracy=0.25)
    curve = Curve()
    curve.add_rows(run.log.rows())
    curve.add_validation([fake.FakeValidation(epoch=1, step=9, loss=2, metrics={"accuracy": 0.5})])
    curve.finish()
    lines = curve.quantity_lines()["accuracy"]
    assert lines[0].tolist() == [[1, 0.25]]
    assert lines[VALIDATION_PLACE].tolist() == [[9, 0.5]]
    assert [quantity.label for _, quantity in curve.quantities()][:2] == ["loss", "accuracy"]


def test_rates_and_metrics_use_the_last_value_and_other_curves_the_mean(run):
    for step in (1, 2):
        run.report(0, step, 1.0, time_s=0.01 * step, learning_rate=step, update_ratio=step)
    curve = Curve()
    curve.add_rows(run.log.rows())
    curve.finish()
    lines = curve.quantity_lines()
    assert lines["learning_rate"][0].tolist() == [[2, 2.0]]
    assert lines["update_ratio"][0].tolist() == [[2, 1.5]]


def test_number_of_metrics_in_a_curve_is_limited():
    rows = {"worker": np.zeros(1, int), "step": np.ones(1, int), "loss": np.ones(1)}
    rows |= {"epoch": np.ones(1, int), "round": np.ones(1, int), "examples": np.ones(1, int)}
    rows |= {"time_s": np.zeros(1)} | {f"metric_{n}": np.ones(1) for n in range(100)}
    curve = Curve()
    curve.add_rows(rows)
    curve.finish()
    assert len(curve.quantities()) == 1 + MOST_METRICS
