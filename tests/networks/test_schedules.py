from dataclasses import replace

import pytest

import sparkwright as sw
from sparkwright.errors import ConfigurationError

SGD = sw.networks.OptimizerSpec(kind="SGD", options={"learning_rate": 0.5, "momentum": 0.9})
SPEC = sw.networks.NetworkSpec(
    layers=(
        sw.networks.LayerSpec(kind="Input", name="features", options={"shape": [4]}),
        sw.networks.LayerSpec(kind="Dense", name="out", options={"units": 1}),
    ),
    outputs=(sw.networks.OutputSpec(layer="out", loss="mean_squared_error"),),
    task="regression",
)
SCHEDULES = [
    sw.networks.CosineSchedule(decay_steps=100, final_share=0.1),
    sw.networks.CosineSchedule(decay_steps=100, warmup_steps=20),
    sw.networks.ExponentialSchedule(decay_steps=10, factor=0.5),
    sw.networks.ExponentialSchedule(decay_steps=10, factor=0.5, staircase=True),
    sw.networks.PiecewiseSchedule(boundaries=(10, 30)),
    sw.networks.WarmUpSchedule(warmup_steps=50),
]
# The rate at the minibatches 0, 15, 45 and 200, of 0.5.
RATES = [
    [0.5, 0.475472, 0.310199, 0.05],
    [0.0, 0.375, 0.426, 0.0],
    [0.5, 0.176777, 0.022097, 4.8e-7],
    [0.5, 0.25, 0.03125, 4.8e-7],
    [0.5, 0.05, 0.005, 0.005],
    [0.0, 0.15, 0.45, 0.5],
]


@pytest.mark.parametrize(("schedule", "rates"), list(zip(SCHEDULES, RATES, strict=True)))
def test_optimizer_rate_is_the_peak_of_the_schedule(schedule, rates):
    spec = replace(SPEC, optimizer=replace(SGD, schedule=schedule))
    assert spec.analysis.ok
    model = spec.build()
    found = [float(model.optimizer._learning_rate(step)) for step in (0, 15, 45, 200)]
    assert found == pytest.approx(rates, abs=1e-3)
    assert sw.networks.NetworkSpec.from_yaml(spec.to_yaml()) == spec
    assert sw.networks.describe_model(model).optimizer == spec.optimizer
    made = {}
    exec(spec.to_code(), made)
    rates_there, rates_here = (m.optimizer.get_config() for m in (made["model"], model))
    assert rates_there["learning_rate"] == rates_here["learning_rate"]


def test_invalid_schedules_are_rejected():
    with pytest.raises(ConfigurationError, match=r"in increasing order.*\(30, 10\)"):
        sw.networks.PiecewiseSchedule(boundaries=(30, 10))
    with pytest.raises(ConfigurationError, match="`decay_steps` must be an integer of at least 1"):
        sw.networks.CosineSchedule(decay_steps=0)
    with pytest.raises(ConfigurationError, match="'cosine', 'exponential'"):
        sw.networks.OptimizerSpec.from_dict({"schedule": {"name": "sine"}})
    found = sw.networks.describe_model(SPEC.build()).optimizer
    assert found.schedule is None
