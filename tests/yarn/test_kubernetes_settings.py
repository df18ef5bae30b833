import pytest

import sparkwright as sw
from sparkwright.spark import _kubernetes
from sparkwright.spark._kubernetes import driver_pod, pod_settings

IMAGE = {"spark.kubernetes.container.image": "registry/train:1"}
MASTER = {"spark.master": "k8s://https://api:6443"}


def test_missing_image_raises_with_the_option_to_set():
    with pytest.raises(sw.ConfigurationError, match="Set it: `settings="):
        pod_settings(MASTER, {})
    assert pod_settings(MASTER, {}, elsewhere=IMAGE) == {}


@pytest.fixture
def _in_a_pod(monkeypatch, tmp_path):
    (tmp_path / "namespace").write_text("ml\n")
    monkeypatch.setattr(_kubernetes, "_ACCOUNT_FILES", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOSTNAME", "127.0.0.2")


@pytest.mark.usefixtures("_in_a_pod")
def test_a_driver_in_a_pod_is_found_by_its_address_and_owns_its_executors():
    assert pod_settings({**MASTER, **IMAGE}, driver_pod()) == {
        "spark.kubernetes.driver.pod.name": "127.0.0.2",
        "spark.driver.host": "127.0.0.2",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.kubernetes.namespace": "ml",
    }


@pytest.mark.usefixtures("_in_a_pod")
def test_driver_settings_of_the_user_are_kept():
    said = {"spark.driver.host": "lab.ml.svc", "spark.kubernetes.namespace": "other"}
    found = pod_settings({**MASTER, **IMAGE, **said}, driver_pod())
    assert not set(said) & set(found)
