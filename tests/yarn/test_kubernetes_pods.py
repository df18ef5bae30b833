import pytest
from tests.yarn.helpers import outcome

pytestmark = pytest.mark.cluster


def run_script(_):
    return outcome("on_kubernetes.py", timeout_s=150)


@pytest.fixture(scope="module")
def pods(script_result):
    found = [made for path, made in script_result if path == "/api/v1/namespaces/ml/pods"]
    assert len(found) == 2
    return found


@pytest.fixture(scope="module")
def container(pods):
    (one,) = pods[0]["spec"]["containers"]
    return one


def test_executors_are_pods_of_the_image_on_machines_with_the_label(pods, container):
    assert container["image"] == "registry/train:1"
    assert {one["spec"]["nodeSelector"]["pool"] for one in pods} == {"gpu"}
    assert {one["metadata"]["labels"]["spark-exec-id"] for one in pods} == {"1", "2"}


def test_a_pod_has_room_for_tensorflow_beside_the_heap_and_its_gpus(container):
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert limits["memory"] == requests["memory"]
    # 1,024 MiB of heap, and what two task slots with TensorFlow take.
    assert int(limits["memory"].removesuffix("Mi")) > 1024 + 2 * 1024
    assert requests["cpu"] == "2"
    assert limits["nvidia.com/gpu"] == "2"


def test_a_pod_has_its_environment_and_shared_memory(pods, container):
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["TF_NUM_INTRAOP_THREADS"] == "2"
    assert environment["SPARK_DRIVER_URL"].startswith("spark://CoarseGrainedScheduler@127.0.0.1:")
    (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == "/dev/shm"]
    (volume,) = [one for one in pods[0]["spec"]["volumes"] if one["name"] == mount["name"]]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "512Mi"}
