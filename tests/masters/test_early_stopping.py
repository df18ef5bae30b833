from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparkwright.errors import ConfigurationError
from sparkwright.masters import EarlyStopping

HIGHER = [
    *("accuracy", "acc", "binary_accuracy", "out_accuracy", "accuracy_1", "auc", "auc_2", "f1"),
    *("f1_score", "fbeta_score", "precision", "recall", "precision_at_recall", "r2_score"),
    *("mean_io_u", "cosine_similarity", "true_positives", "sparse_top_k_categorical_accuracy"),
]
LOWER = [
    *("loss", "out_loss", "mean_squared_error", "mse", "mae", "rmse", "mean_absolute_error"),
    *("binary_crossentropy", "kl_divergence", "poisson", "hinge", "logcosh", "false_negatives"),
]

numbers = st.floats(-1e6, 1e6)


@pytest.mark.parametrize("name", [*HIGHER, *LOWER])
def test_more_of_these_is_better(name: str) -> None:
    assert EarlyStopping(monitor=name, patience=1).maximizes == (name in HIGHER)
    for mode in ("min", "max"):
        assert EarlyStopping(monitor=name, patience=1, mode=mode).maximizes == (mode == "max")


@pytest.mark.parametrize("name", ["my_metric", "score", "accuracy_error", "gloss", "map_loss"])
def test_unknown_metrics_need_an_explicit_mode(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f'{name}.*Set `mode="max"` or `mode="min"`'):
        EarlyStopping(monitor=name, patience=1)
    assert EarlyStopping(monitor=name, patience=1, mode="max").maximizes


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "early stopping needs at least one condition.*such as `patience=3`"),
        ({"max_epochs": 3, "min_improvement": 0.1}, "`min_improvement` is used only with `pat"),
        ({"max_epochs": 3, "keep_best": "/a.keras", "save_last": "/a.keras"}, "different files"),
        ({"patience": 3, "monitor": "val_accuracy"}, "Use 'accuracy'"),
    ],
)
def test_ignored_or_overwritten_options_raise(options: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        EarlyStopping(**options)


@given(score=numbers, target=numbers)
def test_a_target_is_reached_by_a_score_as_good(score: float, target: float) -> None:
    low = EarlyStopping(target=target, mode="min")
    high = EarlyStopping(target=target, mode="max")
    assert low.target_is_reached(score) == (score <= target)
    assert high.target_is_reached(score) == (score >= target)
    assert not EarlyStopping(max_epochs=1).target_is_reached(score)


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({"max_seconds": 3}, False),
        ({"max_epochs": 3, "max_loss": 7}, False),
        ({"max_epochs": 3, "keep_best": None}, False),
        ({"max_epochs": 3, "keep_best": "/best.keras"}, True),
        ({"max_epochs": 3, "monitor": "accuracy"}, True),
        ({"patience": 3}, True),
        ({"target": 3}, True),
    ],
)
def test_only_score_conditions_need_validation(options: Any, needs: bool) -> None:
    assert EarlyStopping(**options).needs_validation == needs
