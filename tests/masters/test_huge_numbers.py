"""Numbers that nothing can count with are refused at once, by the name of their option."""

from dataclasses import MISSING, fields
from typing import Any

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    Checkpointing,
    EarlyStopping,
    MeshConfig,
    NtpClock,
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
)
from sparkwright.partitions import DefaultRepartitioner
from sparkwright.updates import AdaptiveThreshold, FixedThreshold, ResidualClipping, TargetSparsity

KINDS: list[Any] = [
    *(ParameterAveragingTrainingMaster, SharedTrainingMaster, MeshConfig, Checkpointing),
    *(
        DefaultRepartitioner,
        EarlyStopping,
        NtpClock,
        AdaptiveThreshold,
        FixedThreshold,
        ResidualClipping,
        TargetSparsity,
    ),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["large", "small"])
def test_no_option_takes_a_number_of_400_digits(kind: Any, value: int) -> None:
    required = {
        each.name: "x"
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }
    for option in fields(kind):
        with pytest.raises(ConfigurationError, match=option.name):
            kind(**{**required, option.name: value})


def test_a_count_that_is_too_large_is_told_with_its_bound() -> None:
    with pytest.raises(ConfigurationError, match=r"at most 2147483647\. Received: averaging_freq"):
        ParameterAveragingTrainingMaster(averaging_frequency=2**31)
    assert ParameterAveragingTrainingMaster(averaging_frequency=2**31 - 1).workers is None
