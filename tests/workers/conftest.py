import numpy as np
import pytest

from sparkwright.data import DataSet


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a ParallelWrapper are threads of this process."""
    from tests.support.in_process import InProcessPool

    monkeypatch.setattr("sparkwright.local.TrainerPool", InProcessPool)


@pytest.fixture
def blobs() -> DataSet:
    """120 examples, 4 features, 3 classes that can be told apart."""
    random = np.random.default_rng(0)
    labels = np.arange(120, dtype=np.int32) % 3
    centers = random.normal(size=(3, 4)) * 2
    features = centers[labels] + random.normal(size=(120, 4))
    return DataSet(features.astype(np.float32), labels)
