"""Small networks and data for tests on Spark; networks are alike, so trainers keep them warm."""

import pytest
from tests.spark import helpers

import sparkwright as sw


@pytest.fixture(scope="package")
def local_trainers():
    """Two processes of this machine, one core each, that stay for all ParallelWrappers here."""
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10)
    with sw.ParallelWrapper(helpers.dense(), master, workers=2, cores_per_worker=1) as wrapper:
        wrapper.fit(helpers.numbered(20))
        yield


@pytest.fixture(scope="module", autouse=True)
def _send_by_value(request):
    """Executors cannot import test modules: send their classes whole, as a notebook's are."""
    import cloudpickle
    import pyspark.cloudpickle

    for module in (cloudpickle, pyspark.cloudpickle):
        module.register_pickle_by_value(request.module)
        module.register_pickle_by_value(helpers)
