"""Train, evaluate, save and load with an installed wheel; run by `make dist`.

python smoke.py FOLDER            everything but widgets
python smoke.py FOLDER --widgets  the workbench and a run's report, too
"""

import sys
from importlib.metadata import version
from pathlib import Path


def main(folder, *, widgets):
    """Train on two executors, keep the network in `folder`, and show it."""
    import numpy as np

    import sparkwright as sw

    assert "site-packages" in sw.__file__, f"not the installed package: {sw.__file__}"
    assert sw.__version__ == version("sparkwright")
    spark = sw.start_spark(workers=2)
    random = np.random.default_rng(1)
    labels = random.integers(0, 10, 800).astype(np.int32)
    images = random.random((800, 28, 28, 1)).astype(np.float32)
    images[np.arange(800), :, labels * 2 + 4] += 1.0  # a bright column for each class
    data = sw.data.from_arrays(spark, images, labels)
    train, test = data.random_split([0.8, 0.2], seed=7)
    model = sw.networks.lenet()
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, averaging_frequency=5)
    network = sw.SparkNetwork(spark, model, master)
    run = network.start(train, epochs=4, validation=test, display=False)
    run.wait(300)
    accuracy = network.evaluate(test).accuracy
    assert accuracy > 0.8, accuracy
    network.save(str(folder / "lenet.keras"))
    again = sw.SparkNetwork(spark, sw.load_model(str(folder / "lenet.keras")), master)
    assert again.evaluate(test).accuracy == accuracy
    if widgets:
        import sparkwright_widgets as sww

        assert "site-packages" in sww.__file__
        shown = sww.Workbench()._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in shown
        assert b"lenet" in sww.report_of(run).lower()
    spark.stop()
    print(f"sparkwright {sw.__version__}: accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), widgets="--widgets" in sys.argv)
