import pytest
from tests.scripts import json_printed_by

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PROGRAM = """
import dataclasses, json, os
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import keras, numpy as np, psutil
import sparkwright as sw

def processes():
    for process in psutil.Process().children(recursive=True):
        try:
            yield process.cmdline(), open(f"/proc/{process.pid}/status").read()
        except (psutil.Error, OSError):
            continue

model = keras.Sequential([keras.Input((2000,)), keras.layers.Dense(2000), keras.layers.Dense(1)])
model.compile("adam", "mse")
master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
options = {"workers": 2, "cores": 2, "trainers": 2, "driver_memory": "700m"}
plan = sw.advise(model, master=master, step_s=1, **options).memory
spark = sw.start_spark(**plan.arguments)
run = sw.SparkNetwork(spark, model, master).start(
    sw.DataSet(np.zeros((256, 2000), np.float32), np.zeros((256, 1), np.float32))
)
run.wait()
peaks, heaps = [], []
for line, status in processes():
    if "sparkwright.workers._trainer" in line:
        peak = next(row for row in status.splitlines() if row.startswith("VmHWM"))
        peaks.append(int(peak.split()[1]) / 1024)
    if any("CoarseGrainedExecutorBackend" in word for word in line):
        heaps += [word for word in line if word.startswith("-Xmx")]
driver_heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**20
spark.stop()
found = {"peaks": peaks, "heaps": heaps, "driver": driver_heap}
print(json.dumps({"plan": dataclasses.asdict(plan), **found}))
"""


def run_script(_):
    return json_printed_by("-c", PROGRAM, timeout_s=240)


def test_trainers_use_most_but_not_more_than_the_planned_memory(script_result):
    plan = script_result["plan"]
    planned = next(part["each_mib"] for part in plan["parts"] if part["name"] == "trainers")
    assert len(script_result["peaks"]) == plan["trainers"]  # one for each task slot
    assert 0.7 * planned <= max(script_result["peaks"]) <= 1.1 * planned


def test_heaps_match_the_plan(script_result):
    plan = script_result["plan"]
    assert script_result["heaps"] == [f"-Xmx{plan['heap_mib']}M"]
    assert 0.9 * plan["driver_heap_mib"] <= script_result["driver"] <= plan["driver_heap_mib"]
