"""Spark's speculation starts a second copy of a slow task, on another host only."""

from pathlib import Path
from typing import Any

import pytest
from tests.chaos.clusters import laboratory_on_hosts
from tests.chaos.experiments import Experiment
from tests.cluster.helpers import needs_hosts

from sparkwright.errors import ConfigurationError

pytestmark = [
    *(pytest.mark.spark, pytest.mark.chaos, pytest.mark.slow, needs_hosts),
    pytest.mark.timeout(300),
]
SPECULATION = {
    "spark_speculation": "true",
    "spark_speculation_interval": "100ms",
    "spark_speculation_quantile": "0.1",
    "spark_speculation_multiplier": "1.01",
    "spark_speculation_minTaskRuntime": "100ms",
    # Of stages with one task, which have no others to be compared with.
    "spark_speculation_task_duration_threshold": "1s",
}


def test_speculation_is_refused_or_harmless(tmp_path: Path, report: Any) -> None:
    """With two workers on three hosts, the third is free for copies."""
    try:
        with laboratory_on_hosts(tmp_path, **SPECULATION) as laboratory:
            laboratory.ready()
            experiment = Experiment(victim="trainer", fault="speculation", moment="first second")
            watched = laboratory.start(experiment, workers=2)
            report(laboratory.verdict(watched))
    except ConfigurationError as error:
        if "speculation" not in str(error):
            raise
