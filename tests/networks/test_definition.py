"""A model written as text and built again is the same model, whoever builds it."""

import threading
from typing import Any

import keras
import pytest

from sparkwright.networks import ModelDefinition


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_the_policy_of_half_precision_goes_along_to_other_threads(policy: str) -> None:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile("adam", loss="mse")
        definition = ModelDefinition.of(model)
    finally:
        keras.config.set_dtype_policy(before)
    built: list[Any] = []
    thread = threading.Thread(target=lambda: built.append(definition.build()))
    thread.start()
    thread.join()
    assert type(built[0].optimizer) is type(model.optimizer)
    assert built[0].dtype_policy == model.dtype_policy
    assert keras.config.dtype_policy() == before
