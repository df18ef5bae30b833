import json
import os
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.scripts import json_printed_by

ROOT = Path(__file__).parents[2]
# See `.ci/setup`.
JAX = ROOT / ".venv" / "jax"
pytestmark = pytest.mark.skipif(not JAX.exists(), reason="`.ci/setup test` has not fetched JAX")


def run_script(folder):
    """Train on two executors with JAX, evaluate and predict."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path), str(JAX)])
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": path}
    program = f"from {__name__} import main; main()"
    return json_printed_by("-c", program, environment=environment)


@pytest.mark.thorough
def test_jax_networks_train_evaluate_and_predict(script_result):
    assert script_result["trainers"] == ["jax", "jax"]
    assert script_result["losses"][-1] < script_result["losses"][0]
    assert script_result["accuracy"] == pytest.approx(script_result["accuracy_here"], abs=0.01)
    # The trainers' sums have another order than the driver's.
    assert script_result["predicted"] == pytest.approx(script_result["here"], abs=1e-5)


def main():
    from tests.benchmarks._harness import TRAINER, processes
    from tests.workers.jax_program import averaging, data_of, dense

    import sparkwright as sw

    spark = sw.start_spark(workers=2)
    held = data_of("dense", 2)
    features, labels = held.features["features"], held.labels["labels"]
    data = sw.data.from_arrays(spark, features, labels)
    network = sw.SparkNetwork(spark, dense(), averaging())
    run = network.start(data, epochs=2, display=False)
    model = run.wait()
    losses = run.history.groupby("epoch").loss.mean()
    children = psutil.Process(spark.sparkContext._gateway.proc.pid).children(recursive=True)
    owners = {str(child.pid) for child in children}
    commands = [process.cmdline() for process in processes(TRAINER, everywhere=True)]
    found = {
        "trainers": [words[-1] for words in commands if words[-4] in owners],
        "losses": losses.tolist(),
        "accuracy": network.evaluate(data).accuracy,
        "accuracy_here": float((np.asarray(model(features)).argmax(1) == labels).mean()),
        "predicted": network.predict(features[:100]).ravel().tolist(),
        "here": np.asarray(model(features[:100])).ravel().tolist(),
    }
    spark.stop()
    print(json.dumps(found))
