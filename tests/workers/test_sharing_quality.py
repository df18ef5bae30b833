"""Gradient sharing's defaults learn what plain Keras does; the long form is a benchmark."""

import numpy as np
import pytest
from tests.benchmarks.sharing_quality import PROBLEMS, loss


@pytest.mark.thorough
@pytest.mark.usefixtures("in_process")
def test_defaults_reach_the_loss_of_plain_keras() -> None:
    problem = PROBLEMS["table: iris"]
    plain = [loss(problem, "Adam", workers=0, seed=seed) for seed in range(2)]
    shared = [loss(problem, "Adam", workers=4, seed=seed) for seed in range(2)]
    # Measured on three seeds was 1.06; from run to run and seed to seed the ratio varies by 5 %.
    # With nothing sent, or with `combine="mean"`, the loss is twice as high.
    assert np.mean(shared) <= 1.12 * np.mean(plain)
