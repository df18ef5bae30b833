"""The judge, against a straightforward reading of the rules and scripted sequences."""

import json
import math
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparkwright.errors import ConfigurationError
from sparkwright.masters import EarlyStopping
from sparkwright.runs._early_stopping import EarlyStoppingResult, StoppingMonitor, StopReason

NAN, INF = math.nan, math.inf


class Ended(NamedTuple):
    """How a run ended: after which epoch, why, and where it was best."""

    epoch: int
    kind: str
    best: int | None


class Sequence(NamedTuple):
    """Scores of the epochs, in order; the run may have as many epochs as there are."""

    rules: dict[str, Any]
    scores: list[float]
    ended: Ended


UP = {"mode": "max", "monitor": "accuracy"}
SEQUENCES = [
    Sequence({"max_epochs": 4}, [2, 1, 1, 1, 0], Ended(4, "max_epochs", 2)),
    Sequence({"target": 3, **UP}, [1, 2, 3, 4], Ended(3, "target", 3)),
    # Better each time, but not by enough: the last is the best all the same.
    Sequence({"patience": 2, "min_improvement": 1}, [9, 8.5, 8.25, 0], Ended(3, "patience", 3)),
    Sequence({"patience": 1, "min_improvement": 1}, [9, 8, 0], Ended(2, "patience", 2)),
    Sequence({"max_epochs": 9}, [3, 2, NAN, 1], Ended(3, "invalid", 2)),
    Sequence({"max_epochs": 9}, [INF, 1], Ended(1, "invalid", None)),
    Sequence(
        {"max_epochs": 4, "stop_on_invalid": False}, [NAN, 2, NAN, 3], Ended(4, "max_epochs", 2)
    ),
    Sequence({"patience": 1, "evaluate_every": 3}, [0, 0, 5, 0, 0, 5, 0], Ended(6, "patience", 3)),
]


def judge_of(rules: dict[str, Any], epochs: int) -> StoppingMonitor:
    found = EarlyStopping(**rules)
    return StoppingMonitor(found, epochs=found.epochs_of(epochs), validates=True)


def run(judge: StoppingMonitor, scores: list[float]) -> int:
    """Train on paper; returns the last epoch."""
    for epoch in range(1, judge.epochs + 1):
        if not judge.is_due(epoch):
            continue
        score = scores[epoch - 1]
        verdict = judge.judge(epoch, loss=score, metrics={"accuracy": score})
        assert judge.stops_after(epoch) == (verdict.stop is not None and epoch < judge.epochs)
        if verdict.stop is not None:
            return epoch
    return judge.epochs


def reference(rules: dict[str, Any], scores: list[float]) -> Ended:
    """The rules as one would read them aloud, looking at the whole past each time."""
    sign = -1 if rules.get("mode") == "max" else 1
    bound = min(rules.get("max_epochs", len(scores)), len(scores))
    every, least = rules.get("evaluate_every", 1), rules.get("min_improvement", 0.0)
    seen: list[tuple[int, float]] = []
    best: int | None = None
    for epoch in range(1, bound + 1):
        if epoch % every and epoch < bound:
            continue
        score = sign * scores[epoch - 1]
        seen.append((epoch, score))
        valid = [(value, number) for number, value in seen if math.isfinite(value)]
        best = min(valid)[1] if valid else None
        if rules.get("stop_on_invalid", True) and not math.isfinite(score):
            return Ended(epoch, "invalid", best)
        if rules.get("target") is not None and score <= sign * rules["target"]:
            return Ended(epoch, "target", best)
        last, low = -1, INF  # the last evaluation that improved
        for place, (_, value) in enumerate(seen):
            if math.isfinite(value) and (low == INF or low - value > least):
                last, low = place, value
        if rules.get("patience") and len(seen) - 1 - last >= rules["patience"]:
            return Ended(epoch, "patience", best)
    return Ended(bound, "max_epochs", best)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_scripted_sequence_ends_after_exactly_the_right_epoch(sequence: Sequence) -> None:
    judge = judge_of(sequence.rules, len(sequence.scores))
    last = run(judge, sequence.scores)
    reason = judge.result.reason
    assert reason is not None
    assert Ended(last, reason.kind, judge.result.best_epoch) == sequence.ended
    assert reference(sequence.rules, sequence.scores) == sequence.ended


scores = st.lists(
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, NAN, INF, -INF]), min_size=1, max_size=15
)


@st.composite
def random_rules(draw: st.DrawFn) -> dict[str, Any]:
    rules: dict[str, Any] = {
        "max_epochs": draw(st.integers(1, 20)),
        "mode": draw(st.sampled_from(["min", "max"])),
        "evaluate_every": draw(st.integers(1, 4)),
        "stop_on_invalid": draw(st.booleans()),
        "target": draw(st.none() | st.sampled_from([0.0, 0.5, 2.5])),
    }
    if draw(st.booleans()):
        rules["patience"] = draw(st.integers(1, 4))
        rules["min_improvement"] = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    return rules


@given(rules=random_rules(), scores=scores)
def test_judge_follows_the_rules(rules: dict[str, Any], scores: list[float]) -> None:
    judge = judge_of(rules, len(scores))
    last = run(judge, scores)
    found = judge.result
    assert found.reason is not None
    assert Ended(last, found.reason.kind, found.best_epoch) == reference(rules, scores)
    assert list(found.scores) == [e for e in range(1, last + 1) if judge.is_due(e)]
    if found.best_epoch is not None:
        assert found.best_score == scores[found.best_epoch - 1]


@given(rules=random_rules(), scores=scores, again=st.lists(st.integers(1, 15)))
def test_judge_repeats_its_verdict(
    rules: dict[str, Any], scores: list[float], again: list[int]
) -> None:
    judge = judge_of(rules, len(scores))
    run(judge, scores)
    before = judge.result
    for epoch in set(again) & set(before.scores):
        first = judge.judge(epoch, loss=-1.0, metrics={})
        # A score that is no number equals nothing, itself included.
        assert repr(first.score) == repr(before.scores[epoch])
        assert judge.judge(epoch, loss=7.0, metrics={}) is first
    assert judge.result is before


@given(rules=random_rules(), scores=scores, cut=st.integers(0, 15))
def test_gone_on_from_a_checkpoint_a_run_ends_where_it_would_have(
    rules: dict[str, Any], scores: list[float], cut: int
) -> None:
    whole = judge_of(rules, len(scores))
    last = run(whole, scores)
    first = judge_of(rules, len(scores))
    for epoch in range(1, min(cut, last - 1) + 1):
        if first.is_due(epoch):
            first.judge(epoch, loss=scores[epoch - 1], metrics={})
    state = json.loads(json.dumps(first.to_dict(now_s=0.0)))
    second = judge_of(rules, len(scores))
    second.restore(state, kept_epoch=first.result.best_epoch)
    assert second.result.without_improvement == first.result.without_improvement
    assert second.kept_epoch == first.result.best_epoch
    assert run(second, scores) == last
    assert repr(second.result) == repr(whole.result)


def test_a_best_state_that_did_not_come_along_is_not_promised() -> None:
    first = judge_of({"patience": 3}, 9)
    for epoch, score in enumerate([3, 1, 2], 1):
        first.judge(epoch, loss=score, metrics={})
    second = judge_of({"patience": 3}, 9)
    second.restore(first.to_dict(now_s=0.0), kept_epoch=None)
    assert (second.result.best_epoch, second.result.without_improvement) == (None, 1)
    assert second.judge(4, loss=2.5, metrics={}).is_best
    assert second.wants_state(4)
    assert second.result.without_improvement == 2  # it is no improvement on 1
    careless = judge_of({"patience": 3, "keep_best": None}, 9)
    careless.restore(first.to_dict(now_s=0.0), kept_epoch=None)
    assert careless.result.best_epoch == 2


def test_scores_of_other_metrics_are_ignored() -> None:
    first = judge_of({"patience": 3}, 9)
    first.begin(now_s=10.0)
    first.judge(1, loss=3, metrics={})
    second = judge_of({"patience": 3, **UP}, 9)
    second.restore(first.to_dict(now_s=15.0), kept_epoch=1)
    assert second.result.scores == {}
    assert second.kept_epoch is None
    assert second.seconds(now_s=99.0) == 5.0


def test_the_state_of_the_best_epoch_is_wanted_until_it_is_kept() -> None:
    judge = judge_of({"patience": 3}, 9)
    judge.judge(1, loss=3, metrics={})
    assert (judge.wants_state(1), judge.needs(1)) == (True, True)
    judge.kept_epoch = 1
    assert not judge.needs(1)
    judge.judge(2, loss=4, metrics={})
    assert (judge.wants_state(2), judge.needs(2)) == (False, False)
    forgetful = judge_of({"patience": 3, "keep_best": None}, 9)
    forgetful.judge(1, loss=3, metrics={})
    assert not forgetful.wants_state(1)


def test_nothing_is_evaluated_without_validation_data() -> None:
    blind = StoppingMonitor(EarlyStopping(max_epochs=7), epochs=7, validates=False)
    assert not any(blind.is_due(epoch) for epoch in range(8))
    with pytest.raises(ConfigurationError, match="need validation data"):
        StoppingMonitor(EarlyStopping(patience=2), epochs=7, validates=False)


def test_unknown_metric_raises_with_the_valid_names() -> None:
    judge = StoppingMonitor(EarlyStopping(monitor="f1", patience=1), epochs=3, validates=True)
    assert judge.missing(["f1", "accuracy"]) == ""
    assert "there are 'loss', 'accuracy'" in judge.missing(["accuracy"])
    assert judge_of({"patience": 1}, 3).missing([]) == ""


# -- within an epoch ------------------------------------------------------------------------


def within(rules: dict[str, Any], *reports: tuple[list[float], float]) -> list[str | None]:
    judge = judge_of({"max_epochs": 9, **rules}, 9)
    judge.begin(now_s=100.0)
    judge.begin(now_s=105.0)  # workers that come again change nothing
    found = [judge.within(losses, now_s=now_s) for losses, now_s in reports]
    return [None if reason is None else reason.kind for reason in found]


def test_time_counts_from_when_all_workers_are_there_and_before_a_checkpoint() -> None:
    judge = judge_of({"max_seconds": 5}, 9)
    assert judge.within([], now_s=1e9) is None
    judge.restore({"monitor": "loss", "scores": [], "seconds": 4.0}, kept_epoch=None)
    judge.begin(now_s=0.0)
    assert judge.within([], now_s=0.5) is None
    assert judge.within([], now_s=1.0) is not None
    assert within({"max_seconds": 5}, ([1], 104.9), ([], 105.0), ([], 106.0)) == [
        *(None, "max_seconds", None),  # told once
    ]


def test_a_training_loss_may_be_too_large_or_no_number() -> None:
    assert within({"max_loss": 5}, ([1, 5], 100), ([1, 5.5, 1], 100)) == [None, "max_loss"]
    assert within({"max_loss": 5}, ([1, NAN, 6], 100)) == ["invalid"]
    assert within({}, ([INF], 100)) == ["invalid"]
    assert within({"stop_on_invalid": False, "max_loss": 5}, ([NAN], 100), ([INF], 100)) == [
        *(None, "max_loss"),
    ]
    assert within({"stop_on_invalid": False}, ([NAN, INF, 1e30], 100)) == [None]


def test_the_first_reason_stays_except_that_a_failure_explains_more() -> None:
    judge = judge_of({"max_epochs": 3}, 3)
    judge.end(StopReason(kind="user", sentence="the run was stopped"))
    judge.judge(3, loss=1, metrics={})
    judge.settle(epochs=3, kept_epoch=3, best_url="/best.keras", last_url=None)
    found = judge.result
    assert found.reason is not None
    assert (found.reason.kind, found.epochs, found.model) == ("user", 3, "best")
    assert found.best_url == "/best.keras"
    judge.end(StopReason(kind="failure", sentence="the run failed"))
    assert judge.result.reason is not None
    assert judge.result.reason.kind == "failure"


def test_the_result_tells_of_the_state_that_the_model_holds() -> None:
    judge = judge_of({"patience": 3}, 9)
    judge.judge(1, loss=2.0, metrics={})
    judge.judge(2, loss=1.0, metrics={})  # its state is on the way when the run is cut off
    judge.settle(epochs=2, kept_epoch=1, best_url=None, last_url=None)
    assert (judge.result.best_epoch, judge.result.best_score) == (1, 2.0)


def test_a_result_is_one_line_and_a_dict() -> None:
    judge = judge_of({"patience": 1, **UP}, 9)
    assert str(judge.result) == "nothing evaluated"
    judge.judge(1, loss=9, metrics={"accuracy": 0.5})
    assert str(judge.result) == "best accuracy 0.5 in epoch 1"
    judge.judge(2, loss=1, metrics={"accuracy": 0.25})
    assert str(judge.result) == (
        "best accuracy 0.5 in epoch 1; accuracy has not improved in the last evaluation, "
        "up to epoch 2"
    )
    found = json.loads(json.dumps(judge.result.to_dict()))
    assert found["scores"] == {"1": 0.5, "2": 0.25}
    assert found["reason"]["kind"] == "patience"
    assert str(EarlyStoppingResult(monitor="loss", maximizes=False, scores={1: NAN})) == (
        "no valid score"
    )
