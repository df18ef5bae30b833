"""GPUs on a standalone cluster and on YARN; the clusters are real, the GPUs are not."""

from pathlib import Path
from typing import Any

import pytest
from tests.scripts import json_printed_by

pytestmark = pytest.mark.cluster


def trial(kind: str) -> dict[str, Any]:
    return json_printed_by(Path(__file__).with_name("gpu_clusters.py"), kind)


def test_workers_of_a_standalone_cluster_find_their_gpus_and_too_few_are_an_error() -> None:
    found = trial("standalone")
    assert sorted(found["devices"]) == ["GPU 0 (fake)", "GPU 1 (fake)"]
    assert "workers=4; the driver waited 3 s" in found["error"]
    assert "has 2 slots in 1 executors of 2 GPUs" in found["error"]


def test_executors_on_yarn_get_the_script_and_different_gpus() -> None:
    found = trial("yarn")
    assert sorted(found["devices"]) == ["GPU 0 (fake)", "GPU 1 (fake)"]
    assert "workers=4" in found["error"]
