import dataclasses
import json
import pickle

import pytest
from tests.cases import cases
from tests.spark.helpers import Hook

import sparkwright as sw
from sparkwright.python_code import to_code

MASTERS = [sw.ParameterAveragingTrainingMaster, sw.SharedTrainingMaster]
# What the documentation says of them beside Deeplearning4j's.
COMMON = {
    "workers": None,
    "batch_size_per_worker": 16,
    "prefetch_batches": 2,
    "repartition": "always",
    "repartition_strategy": "balanced",
    "storage_level": "MEMORY_ONLY",
    "storage_level_paths": "MEMORY_ONLY",
    "training_approach": "direct",
    "export_directory": None,
    "collect_training_stats": False,
    "mesh": sw.MeshConfig(),
}
DEFAULTS = {
    sw.ParameterAveragingTrainingMaster: COMMON
    | {"averaging_frequency": 5, "aggregation_depth": 2, "updater": "average"},
    sw.SharedTrainingMaster: COMMON
    | {
        "workers_per_node": None,
        "threshold": sw.AdaptiveThreshold(initial=None, min_sparsity=1e-4, max_sparsity=1e-2),
        "residual_clipping": None,
        "repartitioner": sw.DefaultRepartitioner(max_partitions=5000),
        "encoding_debug_mode": False,
    },
    sw.MeshConfig: {
        "ports": None,
        "network_mask": None,
        "controller_address": None,
        "mode": "plain",
        "max_downstreams": 8,
    },
}


@cases("cls", *DEFAULTS)
def test_defaults_are_the_documented_ones(cls):
    assert {name: getattr(cls(), name) for name in DEFAULTS[cls]} == DEFAULTS[cls]


@cases("cls", *MASTERS)
def test_hooks_are_code_and_no_part_of_settings(cls):
    one, other = Hook(), Hook()
    plain = cls(seed=3)
    both = plain.with_hooks(one, other)
    assert (plain.hooks, both.hooks) == ((), (one, other))
    assert both.without_hooks(one).hooks == (other,)
    assert cls(hooks=[one]).hooks == (one,)
    assert both == cls(seed=3)
    assert "hooks" not in both.to_dict()
    for wrong in (5, [object()]):
        with pytest.raises(sw.ConfigurationError, match="`hooks` must"):
            cls(hooks=wrong)


@cases("cls", *MASTERS)
def test_export_directory_needs_the_export_approach(cls):
    cls(training_approach="export", export_directory="hdfs://name/exports")
    with pytest.raises(sw.ConfigurationError, match=r"^`export_directory` is used only with "):
        cls(export_directory="hdfs://name/exports")


@cases("cls", *MASTERS)
def test_master_is_immutable_and_travels_to_workers(cls):
    master = cls(workers=3, mesh=sw.MeshConfig(mode="mesh"))
    assert pickle.loads(pickle.dumps(master)) == master
    with pytest.raises(dataclasses.FrozenInstanceError):
        master.workers = 4
    with pytest.raises(TypeError):
        cls(3)


@cases(
    "settings, needs",
    ({"updater": "average"}, 'needs `updater="local"` or'),
    ({"updater": "reset", "communication": "spark"}, 'needs `communication="ring"`'),
)
def test_rounded_exchanges_need_the_ring_and_no_averaged_moments(settings, needs):
    with pytest.raises(sw.ConfigurationError, match=f'`exchange_precision="int8"` {needs}'):
        sw.ParameterAveragingTrainingMaster(exchange_precision="int8", **settings)


def test_a_frequency_by_epoch_is_kept_in_settings_and_code():
    given = {1: 1, 3: 5, 10: 20}
    master = sw.ParameterAveragingTrainingMaster(averaging_frequency=given)
    given[1] = 0  # the master has a copy
    assert [master.frequency_in(epoch) for epoch in (0, 1, 2, 8, 9, 99)] == [1, 1, 5, 5, 20, 20]
    assert json.loads(master.to_json())["averaging_frequency"] == {"1": 1, "3": 5, "10": 20}
    assert sw.ParameterAveragingTrainingMaster.from_json(master.to_json()) == master
    by_hand = "averaging_frequency: {1: 1, 3: 5, 10: 20}"
    assert sw.ParameterAveragingTrainingMaster.from_yaml(by_hand) == master
    assert to_code(master).endswith("(averaging_frequency={1: 1, 3: 5, 10: 20})")


@cases("wrong", {}, {2: 5}, {1: 1, 3: 0}, {3: 1, 1: 1}, {1: 2.5}, {"x": 1}, {"1" * 5000: 1}, [1])
def test_an_invalid_frequency_by_epoch_is_rejected_with_an_example(wrong):
    rule = r"^`averaging_frequency` must be .* such as {1: 1, 3: 5}, of at least 1. Received: "
    with pytest.raises(sw.ConfigurationError, match=rule):
        sw.ParameterAveragingTrainingMaster(averaging_frequency=wrong)
    with pytest.raises(sw.ConfigurationError, match=rule):
        sw.ParameterAveragingTrainingMaster.from_dict({"averaging_frequency": wrong})


def test_a_delay_is_at_most_the_largest_frequency():
    options = {"averaging_frequency": {1: 1, 2: 5}, "updater": "local"}
    assert sw.ParameterAveragingTrainingMaster(averaging_delay=5, **options).exchange.delay == 5
    with pytest.raises(sw.ConfigurationError, match=r"averaging_delay=6, .*={1: 1, 2: 5}\."):
        sw.ParameterAveragingTrainingMaster(averaging_delay=6, **options)
    options["averaging_frequency"] = {1: 5, 2: 2}  # predictions are about the last epochs
    assert sw.ParameterAveragingTrainingMaster(averaging_delay=5, **options).exchange.delay == 2
