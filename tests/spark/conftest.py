"""Small networks and data for tests on Spark; networks are alike, so trainers keep them warm."""

from collections.abc import Iterator

import numpy as np
import pytest
from tests.spark import helpers
from tests.support.in_process import InProcessPool

import sparkwright as sw
from sparkwright.data import DataSet


@pytest.fixture(scope="package")
def local_trainers() -> Iterator[None]:
    """Two processes of this machine, one core each, that stay for all ParallelWrappers here."""
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10)
    with sw.ParallelWrapper(helpers.dense(), master, workers=2, cores_per_worker=1) as wrapper:
        wrapper.fit(helpers.numbered(20))
        yield


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a ParallelWrapper are threads of this process."""
    monkeypatch.setattr("sparkwright.local.TrainerPool", InProcessPool)


@pytest.fixture
def blobs() -> DataSet:
    """120 examples, 4 features, 3 classes that can be told apart."""
    random = np.random.default_rng(0)
    labels = np.arange(120, dtype=np.int32) % 3
    centres = random.normal(size=(3, 4)) * 2
    features = centres[labels] + random.normal(size=(120, 4))
    return DataSet(features.astype(np.float32), labels)


@pytest.fixture(scope="module", autouse=True)
def _send_by_value(request: pytest.FixtureRequest) -> None:
    """Executors cannot import test modules: send their classes whole, as a notebook's are."""
    import cloudpickle
    import pyspark.cloudpickle

    for module in (cloudpickle, pyspark.cloudpickle):
        module.register_pickle_by_value(request.module)
        module.register_pickle_by_value(helpers)
