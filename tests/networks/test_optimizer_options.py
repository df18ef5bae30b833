"""Optimizers that a run cannot honor are refused; all others pass."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks._optimizer_options import check_optimizer


def optimizer(**options: Any) -> Any:
    """What Keras' optimizers have, without TensorFlow."""
    plain = {"gradient_accumulation_steps": None, "use_ema": False, "weight_decay": 0.1}
    return SimpleNamespace(**{**plain, **options})


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
        ({"inner_optimizer": optimizer(use_ema=True)}, "use_ema=True"),
    ],
)
def test_an_optimizer_that_would_train_another_model_is_refused(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        check_optimizer(optimizer(**options))


def test_other_optimizers_pass() -> None:
    check_optimizer(None)
    check_optimizer(optimizer(gradient_accumulation_steps=1, clipnorm=1.0))
    check_optimizer(optimizer(inner_optimizer=optimizer(_exclude_from_weight_decay=set())))
