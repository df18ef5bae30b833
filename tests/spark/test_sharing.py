import numpy as np
import pytest
from tests.spark.helpers import dense

import sparkwright as sw


def master_of(workers=2, **options):
    threshold = sw.AdaptiveThreshold(initial=1e-3)
    return sw.SharedTrainingMaster(
        workers=workers, batch_size_per_worker=5, seed=1, threshold=threshold, **options
    )


@pytest.mark.versions
def test_loss_decreases_and_the_encoding_is_reported(spark, blobs, leaves_nothing):
    model = dense("adam")
    master = master_of(workers=4)
    run = sw.SparkNetwork(spark, model, master).start(blobs, epochs=6, validation=blobs)
    run.wait(60)
    history = run.history
    # Whoever delivers: what is delivered is the mean over all, and it scores as they did.
    x, y = blobs.features["features"], blobs.labels["labels"]
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert run.status.validation[-1].loss == pytest.approx(loss, abs=1e-5)
    assert accuracy > 0.6
    assert int(model.optimizer.iterations) >= history.groupby("worker")["step"].max().max()
    first, last = (history[history["epoch"] == epoch]["loss"].mean() for epoch in (1, 6))
    assert last < 0.7 * first
    assert [point.epoch for point in run.status.validation] == list(range(1, 7))
    assert run.status.validation[-1].loss < 0.7 * run.status.validation[0].loss
    for column in ("threshold", "sparsity", "message_bytes", "staleness"):
        assert np.isfinite(history[column]).all(), column
    assert (history["threshold"] > 0).all()
    assert (history["staleness"] >= 0).all()
    assert history["residual_max"].max() > 0
    # A message never exceeds a bitmap: words of 16 elements, a header, and the clock before it.
    assert history["message_bytes"].max() < 4 * (model.count_params() / 16 + 6) + 8
    for worker in run.status.workers:
        assert worker.sent_bytes > 0
        assert worker.threshold is not None


def test_network_mask_that_matches_no_address_raises(spark, blobs):
    mesh = sw.MeshConfig(network_mask="203.0.113.0/24")
    with pytest.raises(sw.ConfigurationError, match=r"203\.0\.113\.0/24"):
        sw.SparkNetwork(spark, dense(), master_of(mesh=mesh)).fit(blobs)
