import pytest

import sparkwright as sw

MASTERS = [
    sw.ParameterAveragingTrainingMaster(workers=3, averaging_frequency=7, share_work=True),
    sw.SharedTrainingMaster(workers_per_node=2, threshold=sw.FixedThreshold(threshold=1e-5)),
]


@pytest.mark.parametrize("master", MASTERS, ids=lambda master: type(master).__name__)
def test_settings_give_a_master_of_the_class_they_name(master):
    assert sw.masters.TrainingMaster.from_dict(master.to_dict()) == master
    assert sw.masters.TrainingMaster.from_json(master.to_json()) == master
    assert sw.masters.TrainingMaster.from_yaml(master.to_yaml()) == master


@pytest.mark.parametrize(("saved", "updater"), [(True, "average"), (False, "reset")])
def test_settings_of_older_versions_can_be_read(saved, updater):
    old = {
        "name": "ParameterAveragingTrainingMaster",
        "save_updater": saved,
        "seed": 7,
        "mesh": {"ports": "50000-50100", "replacement_timeout_s": 120.0},
    }
    assert sw.masters.TrainingMaster.from_dict(old) == sw.ParameterAveragingTrainingMaster(
        seed=7,
        updater=updater,
        mesh=sw.MeshConfig(ports="50000-50100", replacement_timeout_s=120.0),
    )


@pytest.mark.parametrize("name", ["TrainingMaster", "", None, ["SharedTrainingMaster"]])
def test_other_classes_are_rejected(name):
    with pytest.raises(sw.ConfigurationError, match=r"`name` must be one of .* Received: name="):
        sw.masters.TrainingMaster.from_dict({"name": name})
    with pytest.raises(sw.ConfigurationError, match="`save_updater`"):
        sw.masters.TrainingMaster.from_dict({**MASTERS[0].to_dict(), "save_updater": name})


@pytest.mark.parametrize("text", ["[]", "null", '"SharedTrainingMaster"'])
def test_values_that_are_not_dictionaries_raise(text):
    for read in (sw.masters.TrainingMaster.from_json, sw.masters.TrainingMaster.from_yaml):
        with pytest.raises(sw.ConfigurationError, match="`settings` must be a dictionary of opt"):
            read(text)
