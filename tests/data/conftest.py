"""Executors cannot import test modules: their functions travel whole, as a notebook's do."""

import cloudpickle
import pyspark.cloudpickle
import pytest


@pytest.fixture(scope="module", autouse=True)
def _send_by_value(request):
    for module in (cloudpickle, pyspark.cloudpickle):
        module.register_pickle_by_value(request.module)
