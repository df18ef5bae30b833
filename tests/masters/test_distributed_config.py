import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.masters.reading import master_from_distributed_config


def read(**config):
    return master_from_distributed_config({"class_name": "SparkModel", "config": config})


def test_synchronous_training_is_averaging_with_the_defaults_of_deeplearning4j():
    assert read(
        mode="synchronous", num_workers=3, batch_size=8
    ) == sw.ParameterAveragingTrainingMaster(
        workers=3, batch_size_per_worker=8, averaging_frequency=5, prefetch_batches=0
    )
    assert read(
        mode="synchronous", num_workers=2, batch_size=4, averaging_frequency=7,
        num_batches_prefetch=1, collect_stats=True,
    ) == sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=4, averaging_frequency=7, prefetch_batches=1,
        collect_training_stats=True,
    )  # fmt: skip


def test_asynchronous_training_is_sharing_with_a_fixed_threshold():
    found = read(mode="asynchronous", num_workers=3, batch_size=8)
    assert found == sw.SharedTrainingMaster(
        workers=3, batch_size_per_worker=8, prefetch_batches=0, threshold=sw.FixedThreshold()
    )
    found = read(mode="asynchronous", num_workers=3, batch_size=8, update_threshold=0.5)
    assert found.threshold == sw.FixedThreshold(threshold=0.5)
    found = read(mode="asynchronous", num_workers=3, batch_size=8, workers_per_node=2)
    assert (found.workers, found.workers_per_node) == (None, 2)
    found = read(mode="asynchronous", num_workers=3, batch_size=8, workers_per_node=-1)
    assert (found.workers, found.workers_per_node) == (3, None)


def test_unsupported_settings_change_nothing():
    plain = {"mode": "synchronous", "num_workers": None, "batch_size": 8}
    more = {"parameter_server_mode": "http", "frequency": "epoch", "shake_frequency": 1}
    assert read(**plain, **more, update_threshold=1e-4) == read(**plain)


@cases(
    "change, text",
    ({"mode": "hogwild"}, "mode='hogwild'"),
    ({"num_workers": 0}, "num_workers=0"),
    ({"batch_size": 2.5}, "batch_size=2.5"),
    ({"collect_stats": "yes"}, "collect_stats='yes'"),
    ({"update_threshold": float("nan")}, "update_threshold=nan"),
    ({"worker": 2}, "worker=2"),
    ({"mode": ...}, "['batch_size', 'num_workers']"),
)
def test_invalid_options_raise(change, text):
    config = {"mode": "synchronous", "num_workers": 2, "batch_size": 8, **change}
    with pytest.raises(sw.ConfigurationError) as refused:
        read(**{name: value for name, value in config.items() if value is not ...})
    assert f"Received: {text}" in str(refused.value)
    for distributed in ({}, {"config": None}, {"config": [1]}):
        with pytest.raises(sw.ConfigurationError, match="`config` must be a dict"):
            master_from_distributed_config(distributed)
