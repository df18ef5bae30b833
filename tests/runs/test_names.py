import random

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.runs.fit_options import checked_options
from sparkwright.runs.names import RunNames


def test_names_are_distinct_and_independent_of_the_seeds_of_a_training():
    names = RunNames()
    drawn = [names.take() for _ in range(12_000)]
    assert len(set(drawn)) == len(drawn)
    assert all(len(name.split("-")) in (2, 3) for name in drawn)

    def name_after_seed():
        random.seed(1)
        return RunNames().take()

    assert len({name_after_seed() for _ in range(20)}) > 1


def test_a_number_is_added_to_a_name_that_is_in_use():
    names = RunNames()
    names.reserve(["lenet"])
    assert [names.take("lenet"), names.take("lenet"), names.take("mlp")] == [
        "lenet-2", "lenet-3", "mlp",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 81, 3])
def test_an_unsuitable_name_is_rejected(name):
    with pytest.raises(ConfigurationError, match="`name` must be None or one line"):
        checked_options({"name": name})
