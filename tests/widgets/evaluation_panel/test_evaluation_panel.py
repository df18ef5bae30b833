from types import SimpleNamespace

import pytest
from tests.cases import cases
from tests.widgets.evaluation_panel import found

import sparkwright as sw
from sparkwright_widgets._evaluation_panel import EvaluationPanel
from sparkwright_widgets._evaluation_panel._task import KINDS, TASKS, outputs_of, prototypes

pytestmark = pytest.mark.usefixtures("comms")


@pytest.fixture
def panel():
    return EvaluationPanel(found.Network(), {"test": found.Data(names=found.NAMES)})


@pytest.mark.thorough
def test_button_runs_and_shows_matching_evaluations(panel):
    told = []
    panel.on_change(told.append)
    assert panel.problem is None
    panel.evaluate_button.click()
    assert panel.settle()
    assert panel.error.value == ""
    result = panel.results["test"]
    assert isinstance(result.evaluation, sw.Evaluation)
    assert isinstance(result.roc, sw.ROCMultiClass)
    assert result.evaluation.class_names == found.NAMES
    assert list(panel.shown.folds) == ["evaluation", "threshold", "roc", "calibration", "worst"]
    assert told == [panel]
    assert not panel.evaluate_button.disabled


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


@cases("task", *TASKS)
def test_offered_evaluations_are_run(task):
    alone, others = prototypes(task, ()), set(KINDS[task]) - {"worst"}
    assert len(prototypes(task, {"roc", "calibration"})) == len(alone) + len(others)
    assert all(len(prototypes(task, {kind})) == len(alone) + 1 for kind in others)


def test_button_is_disabled_with_a_reason_without_network_or_data():
    panel = EvaluationPanel()
    assert panel.evaluate_button.disabled
    assert "There is no network yet" in panel.reason.value
    with pytest.raises(sw.ConfigurationError, match="no network"):
        panel.evaluate()
    panel.set_context(network=found.Network())
    assert panel.problem == "There is no data to evaluate on yet."
    panel.set_context(data={"train": found.Data(), "test": found.Data()})
    assert not panel.evaluate_button.disabled
    assert [label for label, _ in panel.data_choice.options][1] == "test (300 examples)"
    panel.data_choice.value = "test"
    panel.set_context(data={"test": found.Data(), "more": found.Data()})
    assert panel.data_choice.value == "test"  # what was chosen stays
    with pytest.raises(sw.ConfigurationError, match="Received: data='none'"):
        panel.evaluate("none")


@pytest.mark.thorough
def test_results_get_unique_names_and_are_compared(panel):
    for kind in ("roc", "calibration", "worst"):  # drawing takes a while
        panel.kind_boxes[kind].value = False
    panel.evaluate()
    assert panel.comparison_fold.layout.display == "none"
    panel.evaluate("test")
    panel.name_field.value = "after training"
    panel.evaluate()
    assert list(panel.results) == ["test", "test (2)", "after training"]
    assert "after training" in panel.comparison.value
    assert "★" not in panel.comparison.value  # all three are equal
    assert panel.comparison_fold.layout.display is None
    panel.forget_button.click()
    assert list(panel.results) == ["test", "test (2)"]
    assert panel.result_choice.value == "test (2)"
    panel.forget_button.click()
    panel.forget_button.click()
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
    with pytest.raises(sw.ConfigurationError, match="at most one evaluation of a kind"):
        panel.add("twice", [sw.ROC(), sw.ROC()])
    with pytest.raises(sw.ConfigurationError, match="Received: none"):
        panel.add("nothing", [])
    with pytest.raises(sw.ConfigurationError, match="Received: str"):
        panel.add("text", ["accuracy"])


def test_other_selections_are_drawn_in_the_background():
    *_, calibration, worst = found.of_classes()
    panel = EvaluationPanel.of(calibration=calibration, worst=worst)
    shown = panel.shown
    for number in (0, 1, 2):  # the last is drawn, whatever is drawn meanwhile
        shown.choices["calibration"].value = number
    shown.choices["worst"].value = "row"
    assert shown.settle()
    assert "Reliability diagram of class cat" in shown.pictures["calibration"].value
    assert "<img" not in shown.pictures["worst"].value
    assert shown.doing.value == ""
    two = EvaluationPanel.of(calibration=found.of_scores()[2])
    assert two.shown.choices["calibration"].value == 1


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
    explorer, picture = panel.shown.explorer, panel.shown.pictures["roc"]
    panel.close()
    assert explorer.comm is picture.comm is None


def test_unnamed_class_is_not_mistaken_for_a_score():
    roc = sw.ROCMultiClass.from_predictions(*found.predicted())
    kept = EvaluationPanel.of(roc=roc)._repr_mimebundle_()
    assert "Threshold on the score of class 0:" in kept["text/plain"]


def model(tensors, *, activation=None, loss=None):
    """A model whose outputs have these names and widths."""
    kind = None if activation is None else SimpleNamespace(__name__=activation)
    return SimpleNamespace(
        output_names=list(tensors),
        outputs=[SimpleNamespace(shape=(None, width)) for width in tensors.values()],
        layers=[SimpleNamespace(name=name, activation=kind) for name in tensors],
        loss=loss,
    )


@cases(
    "width, activation, loss, task",
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
)
def test_task_is_inferred_from_loss_activation_and_width(width, activation, loss, task):
    (output,) = outputs_of(model({"y": width}, activation=activation, loss=loss))
    assert output.task == task


@cases(
    "loss, tasks",
    ({"a": "mse", "b": "sparse_categorical_crossentropy"}, ["numbers", "classes"]),
    (["binary_crossentropy", None], ["two classes", "numbers"]),
    ids=["by name", "by place"],
)
def test_each_output_has_its_own_loss(loss, tasks):
    two = model({"a": 1, "b": 5}, loss=loss)
    assert [output.task for output in outputs_of(two)] == tasks
