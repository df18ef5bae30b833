import pytest
from tests.yarn import helpers

pytestmark = pytest.mark.cluster
seen = helpers.seen


def run_script(_):
    return helpers.outcome_on_yarn("on_yarn.py")


def test_both_masters_train_in_containers(seen):
    found = seen["training"]
    assert found["finite"] == [True, True]
    # Two executors and Spark's application master, all on the machine without a label.
    assert found["containers"] == {"": 3, "labeled": 0}


def test_executors_get_the_script_and_different_gpus(seen):
    for devices in seen["training"]["devices"]:
        assert sorted(devices) == ["GPU 0 (fake)", "GPU 1 (fake)"]


def test_the_default_overhead_has_room_for_a_small_network(seen):
    found = seen["training"]
    given = 512 + int(found["overhead"].removesuffix("m"))
    assert len(found["resident_mib"]) == 3
    # The smallest is Spark's application master; executors have a JVM, Python and a trainer.
    assert all(1024 < size < given for size in found["resident_mib"][1:])


def test_sparks_jars_are_sent_once(seen):
    found = seen["training"]
    (name,) = found["archives"]
    assert found["archive"].endswith(f"/.sparkwright/{name}")
    assert sum("Uploading Spark's jars" in one for one in seen["warnings"]) == 1


def test_a_model_on_the_clusters_hdfs_is_the_one_that_was_saved(seen):
    assert seen["training"]["loaded_equals_saved"] is True


def test_label_selects_the_nodes_of_executors(seen):
    assert seen["too_small"]["containers"] == {"": 1, "labeled": 1}


def test_a_container_that_is_ended_for_its_memory_is_explained_in_one_sentence(seen):
    error = seen["too_small"]["error"]
    assert "and YARN killed it" in error
    assert "spark.executor.memory=512m, spark.executor.memoryOverhead=384m" in error
    assert "Raise spark.executor.memoryOverhead" in error
    assert any(one in error for one in seen["warnings"] if "YARN killed it" in one)


def test_session_without_resources_raises_with_the_reason_of_yarn(seen):
    assert "no container after 3 s. YARN's diagnostics: " in seen["no_room"]["error"]
    assert seen["no_room"]["left"] == {"containers": 0, "processes": []}


def test_a_session_leaves_nothing_on_the_cluster(seen):
    for session in ("training", "too_small"):
        assert seen[session]["left"] == {"containers": 0, "processes": []}
    assert seen["folder_is_gone"] is True
