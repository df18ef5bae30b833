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
rules = st.builds(
    EarlyStopping,
    max_epochs=st.none() | st.integers(1, 1000),
    max_seconds=st.none() | st.floats(1e-3, 1e6),
    monitor=st.sampled_from(["loss", "accuracy", "my own"]),
    mode=st.sampled_from(["min", "max"]),
    target=st.none() | numbers,
    patience=st.integers(1, 100),
    min_improvement=st.floats(0, 1e3),
    stop_on_invalid=st.booleans(),
    max_loss=st.none() | numbers,
    evaluate_every=st.integers(1, 100),
    keep_best=st.sampled_from(["memory", None, "/data/best.keras", "memory://best.keras"]),
    save_last=st.sampled_from([None, "s3://bucket/last.keras"]),
)


@pytest.mark.parametrize("name", HIGHER)
def test_more_of_these_is_better(name: str) -> None:
    assert EarlyStopping(monitor=name, patience=1).maximises
    assert not EarlyStopping(monitor=name, patience=1, mode="min").maximises


@pytest.mark.parametrize("name", LOWER)
def test_less_of_these_is_better(name: str) -> None:
    assert not EarlyStopping(monitor=name, patience=1).maximises
    assert EarlyStopping(monitor=name, patience=1, mode="max").maximises


@pytest.mark.parametrize("name", ["my_metric", "score", "accuracy_error", "gloss", "map_loss"])
def test_of_other_metrics_it_has_to_be_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f'{name}.*Give `mode="max"` or `mode="min"`'):
        EarlyStopping(monitor=name, patience=1)
    assert EarlyStopping(monitor=name, patience=1, mode="max").maximises


def test_without_any_condition_it_is_told_what_to_give() -> None:
    with pytest.raises(ConfigurationError) as refused:
        EarlyStopping()
    assert str(refused.value) == (
        "early stopping needs a condition. Received: none. Give at least one of `max_epochs`, "
        "`max_seconds`, `target`, `patience`, `max_loss`, such as `patience=3`."
    )


def test_what_would_be_ignored_or_overwritten_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`min_improvement` is used only with `patience`"):
        EarlyStopping(max_epochs=3, min_improvement=0.1)
    with pytest.raises(ConfigurationError, match="must be different files"):
        EarlyStopping(max_epochs=3, keep_best="/a.keras", save_last="/a.keras")
    with pytest.raises(ConfigurationError, match="Give 'accuracy'"):
        EarlyStopping(patience=3, monitor="val_accuracy")
    with pytest.raises(ConfigurationError, match="unknown options"):
        EarlyStopping.from_dict({"patience": 3, "min_delta": 0.1})


@given(score=numbers, target=numbers)
def test_a_target_is_reached_by_a_score_as_good(score: float, target: float) -> None:
    low = EarlyStopping(target=target, mode="min")
    high = EarlyStopping(target=target, mode="max")
    assert low.target_is_reached(score) == (score <= target)
    assert high.target_is_reached(score) == (score >= target)
    assert not EarlyStopping(max_epochs=1).target_is_reached(score)


def test_the_smaller_bound_of_epochs_counts() -> None:
    assert EarlyStopping(max_epochs=5).epochs_of(9) == 5
    assert EarlyStopping(max_epochs=5).epochs_of(3) == 3
    with pytest.raises(ConfigurationError, match="upper bound of epochs"):
        EarlyStopping(max_seconds=5).epochs_of(None)


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
def test_only_what_looks_at_scores_needs_validation(options: Any, needs: bool) -> None:
    assert EarlyStopping(**options).needs_validation == needs
