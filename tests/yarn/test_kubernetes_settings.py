import pytest

import sparkwright as sw
from sparkwright.spark._kubernetes import PodFacts, pod_settings

IMAGE = {"spark.kubernetes.container.image": "registry/train:1"}
MASTER = {"spark.master": "k8s://https://api:6443"}
POD = PodFacts(name="lab-0", address="10.1.2.3", namespace="ml")


def test_missing_image_raises_with_the_option_to_set():
    with pytest.raises(sw.ConfigurationError, match="Set it: `settings="):
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
