"""Optimizers that a run cannot honor are refused; all others pass."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks.optimizer_checks import check_optimizer

VARIABLES = ["kernel", "bias"]


class ScheduleFreeAdamW(SimpleNamespace):
    """Has the name of Keras' class."""


def optimizer(kind: Any = SimpleNamespace, **options: Any) -> Any:
    """What Keras' optimizers have, without TensorFlow."""
    plain = {"gradient_accumulation_steps": None, "use_ema": False, "weight_decay": 0.1}
    return kind(**{**plain, "built": True, "_trainable_variables": VARIABLES, **options})


def check(optimizer: Any) -> None:
    check_optimizer(SimpleNamespace(optimizer=optimizer, trainable_variables=VARIABLES))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gradient_accumulation_steps": 4}, "gradient_accumulation_steps=4"),
        ({"use_ema": True}, "use_ema=True"),
        (
            {"_exclude_from_weight_decay_pattern": re.compile("bias|norm")},
            "exclude_from_weight_decay=bias|norm",
        ),
        ({"_exclude_from_weight_decay": {7}}, "exclude_from_weight_decay=variables"),
        ({"optimizers": [optimizer()]}, "optimizers=SimpleNamespace"),
        ({"kind": ScheduleFreeAdamW}, "Use AdamW"),
        ({"_trainable_variables": []}, "built for 0 of 2"),
        ({"inner_optimizer": optimizer(use_ema=True)}, "use_ema=True"),
    ],
)
def test_an_optimizer_that_would_train_another_model_is_refused(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        check(optimizer(**options))


def test_other_optimizers_pass() -> None:
    check(None)
    check(optimizer(built=False, _trainable_variables=[]))
    check(optimizer(gradient_accumulation_steps=1, clipnorm=1.0))
    check(optimizer(inner_optimizer=optimizer(_exclude_from_weight_decay=set())))
