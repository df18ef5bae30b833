"""The evaluation panel as an object: what it asks, shows, compares and leaves behind."""

import threading
from types import SimpleNamespace

import pytest
from tests.widgets.evaluation_panel import found

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import (
    ROC,
    Evaluation,
    EvaluationBinary,
    RegressionEvaluation,
    ROCMultiClass,
)
from sparkwright_widgets._evaluation_panel import EvaluationPanel, _shown
from sparkwright_widgets._evaluation_panel._task import KINDS, TASKS, Output, outputs_of, prototypes

pytestmark = pytest.mark.usefixtures("comms")


@pytest.fixture
def panel():
    return EvaluationPanel(found.Network(), {"test": found.Data(names=found.NAMES)})


def press(button):
    button.click()


@pytest.mark.thorough
def test_button_runs_and_shows_matching_evaluations(panel):
    told = []
    panel.on_change(told.append)
    assert panel.problem is None
    press(panel.evaluate_button)
    assert panel.settle()
    assert panel.error.value == ""
    result = panel.results["test"]
    assert isinstance(result.evaluation, Evaluation)
    assert isinstance(result.roc, ROCMultiClass)
    assert result.evaluation.class_names == found.NAMES
    assert list(panel.shown.folds) == ["evaluation", "threshold", "roc", "calibration", "worst"]
    assert told == [panel]
    assert not panel.evaluate_button.disabled


def test_deselected_evaluations_are_not_run(panel):
    for kind in ("roc", "calibration", "worst"):
        panel.kind_boxes[kind].value = False
    result = panel.evaluate()
    assert [type(each) for each in result.evaluations] == [Evaluation]
    assert result.worst is None


@pytest.mark.thorough
def test_task_can_be_selected():
    panel = EvaluationPanel(found.Network(width=1, loss="mse"), found.Data(classes=2))
    assert panel.task_choice.value == "numbers"
    panel.task_choice.value = "two classes"
    panel.kind_boxes["worst"].value = False
    assert isinstance(panel.evaluate("data").roc, ROC)


def test_only_evaluations_of_the_task_are_offered():
    panel = EvaluationPanel(found.Network(width=1, loss="mse"), found.Data(classes=2))

    def offered():
        return [kind for kind, box in panel.kind_boxes.items() if box.layout.display is None]

    assert offered() == ["worst"]
    panel.task_choice.value = "answers"
    assert offered() == ["roc", "worst"]
    panel.kind_boxes["roc"].value = False
    panel.set_context(network=found.Network(width=1, loss="mse"))
    assert offered() == ["worst"]
    panel.task_choice.value = "two classes"
    assert offered() == ["roc", "calibration", "worst"]
    assert not panel.kind_boxes["roc"].value


@pytest.mark.parametrize("task", TASKS)
def test_offered_evaluations_are_run(task):
    alone, others = prototypes(task, ()), set(KINDS[task]) - {"worst"}
    assert len(prototypes(task, {"roc", "calibration"})) == len(alone) + len(others)
    assert all(len(prototypes(task, {kind})) == len(alone) + 1 for kind in others)


def test_failed_evaluation_is_shown_and_the_button_is_enabled_again():
    network = found.Network(fails=DataError("labels must be 0 or 1. Received: 7."))
    panel = EvaluationPanel(network, found.Data())
    press(panel.evaluate_button)
    assert panel.settle()
    assert "labels must be 0 or 1. Received: 7." in panel.error.value
    assert 'role="alert"' in panel.error.value
    assert not panel.evaluate_button.disabled
    assert panel.results == {}


def test_button_is_disabled_with_a_reason_without_network_or_data():
    panel = EvaluationPanel()
    assert panel.evaluate_button.disabled
    assert "There is no network yet" in panel.reason.value
    with pytest.raises(ConfigurationError, match="no network"):
        panel.evaluate()
    panel.set_context(network=found.Network())
    assert panel.problem == "There is no data to evaluate on yet."
    panel.set_context(data={"train": found.Data(), "test": found.Data()})
    assert not panel.evaluate_button.disabled
    assert [label for label, _ in panel.data_choice.options][1] == "test (300 examples)"
    panel.data_choice.value = "test"
    panel.set_context(data={"test": found.Data(), "more": found.Data()})
    assert panel.data_choice.value == "test"  # what was chosen stays
    with pytest.raises(ConfigurationError, match="Received: data='none'"):
        panel.evaluate("none")


@pytest.mark.thorough
def test_results_get_unique_names_and_are_compared(panel):
    for kind in ("roc", "calibration", "worst"):  # drawing takes a while
        panel.kind_boxes[kind].value = False
    panel.evaluate()
    assert panel.comparison_fold.layout.display == "none"
    panel.evaluate()
    panel.name_field.value = "after training"
    panel.evaluate()
    assert list(panel.results) == ["test", "test (2)", "after training"]
    assert "after training" in panel.comparison.value
    assert "★" not in panel.comparison.value  # all three are equal
    assert panel.comparison_fold.layout.display is None
    press(panel.forget_button)
    assert list(panel.results) == ["test", "test (2)"]
    assert panel.result_choice.value == "test (2)"
    press(panel.forget_button)
    press(panel.forget_button)
    assert panel.shown is None
    assert "Nothing has been evaluated yet." in panel._still().text


@pytest.mark.thorough
def test_selecting_a_result_shows_it():
    panel = EvaluationPanel()
    panel.add("classes", found.of_classes())
    panel.add("numbers", found.of_numbers())
    assert list(panel.shown.folds) == ["regression"]
    panel.result_choice.value = "classes"
    assert "threshold" in panel.shown.folds
    assert panel.asking.layout.display == "none"  # there is nothing to evaluate with
    with pytest.raises(ConfigurationError, match="at most one evaluation of a kind"):
        panel.add("twice", [ROC(), ROC()])
    with pytest.raises(ConfigurationError, match="Received: none"):
        panel.add("nothing", [])
    with pytest.raises(ConfigurationError, match="Received: str"):
        panel.add("text", ["accuracy"])


@pytest.mark.thorough
def test_panel_of_results_needs_no_spark():
    evaluation, roc, calibration = found.of_scores()
    panel = EvaluationPanel.of(evaluation=evaluation, roc=roc, calibration=calibration)
    panel.shown.explorer.threshold = 0.9
    assert panel.shown.explorer.reading.threshold >= 0.9
    assert panel.shown.choices["calibration"].value == 1


def test_other_selections_are_drawn_in_the_background():
    *_, calibration, worst = found.of_classes()
    panel = EvaluationPanel.of(calibration=calibration, worst=worst)
    shown = panel.shown
    before = shown.pictures["calibration"].value
    shown.choices["calibration"].value = 2
    assert shown.settle()
    assert "Reliability diagram of class cat" in shown.pictures["calibration"].value != before
    shown.choices["worst"].value = "row"
    assert shown.settle()
    assert "<img" not in shown.pictures["worst"].value


@pytest.mark.thorough
def test_selection_made_while_drawing_is_drawn_next(panel, monkeypatch):
    panel.evaluate()
    shown, may_draw = panel.shown, threading.Event()
    draw = _shown.blocks_of

    def slow(found, **options):
        assert may_draw.wait(30)
        return draw(found, **options)

    monkeypatch.setattr(_shown, "blocks_of", slow)
    shown.choices["calibration"].value = 0
    shown.choices["worst"].value = "row"
    shown.choices["calibration"].value = 1
    shown.choices["calibration"].value = 2
    may_draw.set()
    assert shown.settle()
    assert "Reliability diagram of class cat" in shown.pictures["calibration"].value
    assert "<img" not in shown.pictures["worst"].value
    assert shown.doing.value == ""


@pytest.mark.thorough
def test_button_stays_disabled_during_evaluation(monkeypatch):
    network, may_evaluate = found.Network(), threading.Event()
    evaluate = network.do_evaluation

    def slow(data, evaluations):
        assert may_evaluate.wait(30)
        return evaluate(data, evaluations)

    monkeypatch.setattr(network, "do_evaluation", slow)
    panel = EvaluationPanel(network, {"test": found.Data(), "train": found.Data()})
    press(panel.evaluate_button)
    assert panel.evaluate_button.disabled
    panel.data_choice.value = "train"
    panel.set_context(data={"test": found.Data()})
    assert panel.evaluate_button.disabled
    may_evaluate.set()
    assert panel.settle()
    assert not panel.evaluate_button.disabled


def test_unnamed_class_is_not_mistaken_for_a_score():
    panel = EvaluationPanel(found.Network(), found.Data())
    panel.evaluate()
    assert "Threshold on the score of class 0:" in panel._repr_mimebundle_()["text/plain"]


@pytest.mark.thorough
def test_saved_notebook_keeps_figures_and_the_selected_threshold(panel):
    panel.evaluate()
    panel.shown.explorer.threshold = 2.0
    bundle = panel._repr_mimebundle_()
    assert "<svg" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert "Confusion matrix" in bundle["text/html"]
    assert "Threshold on the score of ant: above all scores." in bundle["text/plain"]
    assert bundle["text/plain"].startswith("Evaluation: test, 300 examples")
    assert "&lt;b&gt;bee" in bundle["text/html"]


@pytest.mark.thorough
def test_close_also_closes_shown_widgets(panel):
    panel.evaluate()
    explorer, picture = panel.shown.explorer, panel.shown.pictures["roc"]
    panel.close()
    assert explorer.comm is None
    assert picture.comm is None


# --- what an output is for


def model(*, width=1, activation=None, loss=None, name="y"):
    kind = None if activation is None else SimpleNamespace(__name__=activation)
    return SimpleNamespace(
        output_names=[name],
        outputs=[SimpleNamespace(shape=(None, width))],
        layers=[SimpleNamespace(name=name, activation=kind)],
        loss=loss,
    )


@pytest.mark.parametrize(
    ("width", "activation", "loss", "task"),
    [
        (10, "softmax", None, "classes"),
        (2, "softmax", "sparse_categorical_crossentropy", "two classes"),
        (10, "softmax", SimpleNamespace(name="categorical_crossentropy"), "classes"),
        (10, None, "CategoricalCrossentropy", "classes"),
        (1, "sigmoid", "binary_crossentropy", "two classes"),
        (4, "sigmoid", "binary_crossentropy", "answers"),
        (2, "sigmoid", None, "answers"),
        (1, "linear", "mse", "numbers"),
        (1, "sigmoid", "mse", "numbers"),
        (None, None, None, "numbers"),
    ],
)
def test_task_is_inferred_from_loss_activation_and_width(width, activation, loss, task):
    (output,) = outputs_of(model(width=width, activation=activation, loss=loss))
    assert output.task == task


def test_each_output_has_its_own_loss():
    two = SimpleNamespace(
        output_names=["a", "b"],
        outputs=[SimpleNamespace(shape=(None, 1)), SimpleNamespace(shape=(None, 5))],
        layers=[],
        loss={"a": "mse", "b": "sparse_categorical_crossentropy"},
    )
    assert [output.task for output in outputs_of(two)] == ["numbers", "classes"]
    two.loss = ["binary_crossentropy", None]
    assert [output.task for output in outputs_of(two)] == ["two classes", "numbers"]
    assert Output(name="a", width=3, activation="softmax", loss="mse").task == "classes"


def test_a_result_of_one_of_several_outputs_is_named_after_it(panel):
    panel._outputs = [Output(name=name, width=1) for name in ("price", "rent")]
    panel.output_choice.options = ["price", "rent"]
    panel.output_choice.value = "rent"
    assert panel._next_name() == "test, rent"


def test_prototypes_have_names_and_zero_examples():
    assert isinstance(prototypes("numbers", {"roc"})[0], RegressionEvaluation)
    answers = prototypes("answers", {"roc", "calibration"}, ["a", "b"])
    assert isinstance(answers[0], EvaluationBinary)
    assert len(answers) == 2
    assert answers[0].names == ("a", "b")
    assert all(each.examples == 0 for each in prototypes("classes", {"roc", "calibration"}))
