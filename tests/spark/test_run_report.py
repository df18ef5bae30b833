import re
from html import unescape

import pytest
from tests.spark.helpers import dense

import sparkwright as sw
from sparkwright.runs import extensions


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """The widgets, whether or not this checkout's entry points are installed."""
    from sparkwright_widgets._reports import report_of

    class Entry:
        def load(self):
            return report_of

    monkeypatch.setattr(extensions, "entry_points", lambda group: [Entry()])


def test_run_report_on_spark_contains_data_model_and_environment(spark, blobs, tmp_path):
    import fsspec

    data = sw.data.from_arrays(spark, blobs.features, blobs.labels, partitions=3)
    train, test = data.random_split([0.75, 0.25], seed=1, exact=True)
    master = sw.ParameterAveragingTrainingMaster(
        workers=2,
        batch_size_per_worker=10,
        averaging_frequency=2,
        collect_training_stats=True,
        seed=3,
    )
    network = sw.SparkNetwork(spark, dense("adam"), master)
    run = network.start(train, epochs=2, validation=test)
    run.wait()
    network.save(f"{tmp_path}/model.keras")
    run.report(
        "memory://reports/run.html",
        evaluations=network.evaluate(test, class_names=["ant", "bee", "cat"]),
        data={"train": train, "test": test},
        model_url=f"{tmp_path}/model.keras",
        title="Blobs",
    )
    html = fsspec.filesystem("memory").cat_file("/reports/run.html").decode()
    assert run.started_at < run.ended_at
    html = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    text = unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)))
    for words in (
        "Blobs ✓ Done Best validation accuracy",
        "The training data had 3 partitions and was trained in 2, one per worker.",
        "Of the workers' measured time:",
        "The network “dense” has 2 layers and 67 parameters.",
        "The saved model has exactly the weights of this run.",
        "spark.executor.memory",
        f"Java of the driver {run.configuration['java']}",
        "No warnings were raised.",
        "sw.SparkNetwork(spark, model, master)",
        "3 classes of “labels”",
    ):
        assert words in text

    # Another state than the saved one is told.
    run.model.set_weights([weight + 1 for weight in run.model.get_weights()])
    run.report(f"{tmp_path}/changed.html", model_url=f"{tmp_path}/model.keras")
    changed = (tmp_path / "changed.html").read_text()
    assert (
        "4 of 4 weight arrays of the saved model differ from those of this run, by up to 1"
        in changed
    )
