import pytest

import sparkwright as sw
from sparkwright.spark._kubernetes import PodFacts, pod_settings

IMAGE = {"spark.kubernetes.container.image": "registry/train:1"}
MASTER = {"spark.master": "k8s://https://api:6443"}
POD = PodFacts(name="lab-0", address="10.1.2.3", namespace="ml")


def test_everything_that_is_named_becomes_a_setting():
    found = sw.spark.kubernetes_settings(
        "registry/train:1",
        namespace="ml",
        service_account="spark",
        driver_host="lab.ml.svc",
        driver_port=2222,
        block_manager_port=7777,
        shared_memory_mb=512,
        pull_secret="key",
        node_selector={"pool": "gpu"},
        python="/opt/venv/bin/python",
    )
    account = "spark.kubernetes.authenticate"
    shared = "spark.kubernetes.executor.volumes.emptyDir.shm"
    assert found == {
        **IMAGE,
        "spark.kubernetes.namespace": "ml",
        f"{account}.serviceAccountName": "spark",
        f"{account}.driver.serviceAccountName": "spark",
        "spark.driver.host": "lab.ml.svc",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.port": "2222",
        "spark.driver.blockManager.port": "7777",
        "spark.kubernetes.container.image.pullSecrets": "key",
        "spark.pyspark.python": "/opt/venv/bin/python",
        f"{shared}.mount.path": "/dev/shm",
        f"{shared}.options.medium": "Memory",
        f"{shared}.options.sizeLimit": "512Mi",
        "spark.kubernetes.executor.node.selector.pool": "gpu",
    }


@pytest.mark.parametrize(
    "wrong",
    [{"image": " "}, {"driver_port": 0}, {"block_manager_port": 65_536}, {"shared_memory_mb": 0}],
)
def test_invalid_options_raise(wrong):
    (name,) = wrong
    with pytest.raises(sw.ConfigurationError, match=f"`{name}` must .* Received: {name}="):
        sw.spark.kubernetes_settings(**{"image": "a", **wrong})


def test_missing_image_raises_with_the_option_to_set():
    with pytest.raises(sw.ConfigurationError, match=r"sw\.spark\.kubernetes_settings\("):
        pod_settings(MASTER, None)
    assert pod_settings(MASTER, None, elsewhere=IMAGE) == {}


def test_a_driver_in_a_pod_is_found_by_its_address_and_owns_its_executors():
    assert pod_settings({**MASTER, **IMAGE}, POD) == {
        "spark.kubernetes.driver.pod.name": "lab-0",
        "spark.driver.host": "10.1.2.3",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.kubernetes.namespace": "ml",
    }


def test_driver_settings_of_the_user_are_kept():
    said = {"spark.driver.host": "lab.ml.svc", "spark.kubernetes.namespace": "other"}
    found = pod_settings({**MASTER, **IMAGE, **said}, POD)
    assert not set(said) & set(found)
