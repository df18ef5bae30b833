from types import SimpleNamespace

import numpy as np

from sparkwright.updates import AdaptiveThreshold
from sparkwright.workers._shared_parameters import SharedParameters

SIZE = 5_000
LARGE = 4_000_000  # so many that a bitmap of them is long


class FakeReplica:
    """One variable in NumPy, which a test moves as training would."""

    def __init__(self, size=SIZE):
        self.values = np.zeros(size, np.float32)
        self.state = SimpleNamespace(
            trainable_size=size,
            trainable=1,
            dtype=np.dtype(np.float32),
            averaged=[np.empty(size, np.float32)],
            trainable_views=lambda: [self.values],
        )


def shared(replica, algorithm):
    untyped = replica
    return SharedParameters(untyped, algorithm=algorithm, clipping=None, per_variable=False)


def test_thresholds_are_not_carried_over_before_they_are_chosen():
    replica, random = FakeReplica(), np.random.default_rng(0)
    parameters = shared(replica, AdaptiveThreshold())
    handed_on = []
    for step in range(5):
        replica.values -= random.normal(size=SIZE).astype(np.float32)
        parameters.encode(step=step)
        handed_on.append(bool(parameters.adapted))
    assert handed_on == [False, False, False, True, True]


def test_threshold_far_too_large_is_chosen_again():
    replica, random = FakeReplica(), np.random.default_rng(0)
    chosen, given = AdaptiveThreshold(), AdaptiveThreshold(initial=1.0)
    sent = {"chosen": [], "given": []}
    for name, algorithm in (("chosen", chosen), ("given", given)):
        parameters = shared(replica, algorithm)
        parameters.reset(replica.values)
        parameters.continue_from([1.0])
        for step in range(6):
            replica.values -= 1e-5 * random.normal(size=SIZE).astype(np.float32)
            sent[name].append(parameters.encode(step=step).selected)
    assert sent["chosen"][:4] == [0, 0, 0, 0]
    assert sent["chosen"][4] > 0
    assert sent["given"] == [0] * 6


def test_threshold_far_too_small_for_a_large_network_is_chosen_again():
    replica, random = FakeReplica(LARGE), np.random.default_rng(0)
    parameters = shared(replica, AdaptiveThreshold())
    parameters.continue_from([1e-6])
    sent = []
    for step in range(3):
        replica.values -= random.normal(size=LARGE).astype(np.float32)
        sent.append(parameters.encode(step=step).words.size)
    assert sent[0] > LARGE / 17
    assert max(sent[1:]) < 0.04 * LARGE  # a hundredth is wanted; twice that is left as it is
