import sys
import threading
from dataclasses import replace

import pytest
from tests.cases import cases

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, CosineSchedule, LayerSpec, NetworkSpec, keras_catalog
from sparkwright_widgets._network_builder import NetworkBuilder
from sparkwright_widgets._network_builder._editing_pane import read
from sparkwright_widgets._network_builder._pane import LayerList
from sparkwright_widgets._ui import Button

pytestmark = pytest.mark.usefixtures("comms", "keras_loaded")


@pytest.fixture
def builder():
    return NetworkBuilder()


def states(builder):
    return [row["state"] for row in builder.editing.layers.rows]


def test_unknown_actions_of_the_browser_are_ignored(comms):
    heard = []
    rows = LayerList()
    rows.on_action(heard.append)
    for content in ({"kind": "up"}, {"kind": "format the disk"}, {"kind": []}, "up", None):
        comms[-1].receive(content)
    assert heard == ["up"]


def choose(builder, row):
    builder.editing.layers.selected = row


def type_into(builder, name, text):
    builder.editing.editor.form.fields[name].control.value = text


def press(builder, action):
    builder.editing.editor.buttons[action].click()


def add(builder, kind, **options):
    builder.editing.kind.value = kind
    builder.editing.add_button.click()
    for name, value in options.items():
        type_into(builder, name, value)


@pytest.fixture
def training(builder):
    """The opened form of task, outputs and optimizer."""
    builder.editing.folds["training"].set_opened(True)
    return builder.editing.training


@pytest.fixture
def pasting(builder):
    """The opened editor of the network's text."""
    builder.editing.folds["text"].set_opened(True)
    return builder.editing.text


def test_builder_starts_with_a_valid_lenet(builder):
    assert builder.problem is None
    assert states(builder) == ["ok"] * 8
    bundle = builder._repr_mimebundle_()
    assert "431,080 parameters" in bundle["text/html"]
    assert "conv_2" in bundle["text/plain"]
    with pytest.raises(ConfigurationError, match="NetworkSpec"):
        NetworkBuilder(3)


@pytest.fixture
def loading(monkeypatch):
    """Keras is loading until the event is set."""
    ready = threading.Event()
    inside = "sparkwright_widgets._network_builder"
    for module in (
        *("sparkwright.networks.analysis", f"{inside}._editing_pane", f"{inside}._layer_editor"),
    ):
        monkeypatch.setattr(f"{module}.is_loaded", ready.is_set)
    monkeypatch.setattr(f"{inside}._editing_pane.load", ready.wait)
    yield ready
    ready.set()


def test_builder_appears_immediately_and_updates_when_keras_is_loaded(loading):
    builder = NetworkBuilder()
    heard = []
    builder.on_change(lambda part: heard.append(part.problem))
    assert "Keras is loading" in builder.problem
    assert states(builder) == ["waiting"] * 8
    choose(builder, 1)
    field = builder.editing.editor.name_form.fields["name"]
    field.control.value = "conv_2"
    builder.set_data(features={"features": (28, 28, 1)})
    assert field is builder.editing.editor.name_form.fields["name"]
    assert field.control.value == "conv_2"
    assert 'role="alert"' in field.alert.value
    field.control.value = "conv_1"
    loading.set()
    assert builder.analysis.parameters == 431_080  # waits
    assert heard[-1] is None
    assert states(builder) == ["ok"] * 8
    type_into(builder, "filters", "3")
    assert builder.spec.layers[1].options["filters"] == 3


def test_keras_import_failure_is_shown_as_the_problem(loading, monkeypatch):
    monkeypatch.setattr(keras_catalog, "_problems", [])
    monkeypatch.setitem(sys.modules, "keras", None)
    monkeypatch.setattr(
        "sparkwright_widgets._network_builder._editing_pane.load", keras_catalog.load
    )
    builder = NetworkBuilder()
    builder.editing.wait()
    assert builder.problem.startswith("Keras cannot be loaded: ")
    assert "Keras cannot be loaded" in builder.editing.summary.value


def test_every_layer_of_keras_can_be_added(builder):
    kinds = [value for _, value in builder.editing.kind.options]
    assert kinds[:2] == ["Input", "Dense"]
    assert {"EinsumDense", "ConvLSTM2D"} <= set(kinds)
    add(builder, "RandomFlip", mode="horizontal")
    assert builder.spec.layers[1].options == {"mode": "horizontal"}


def test_too_large_kernel_invalidates_its_row_until_fixed(builder):
    layers = builder.editing.layers
    assert layers.graph.count("data-row") == 8
    assert "24 x 24 x 20" in layers.graph
    choose(builder, 3)
    type_into(builder, "kernel_size", "31")
    assert builder.problem.startswith("Row 4 (conv_2): ")
    assert states(builder) == ["ok"] * 3 + ["problem"] + ["waiting"] * 4
    assert "sparkwright-node-problem" in layers.graph
    fields = builder.editing.editor.form.fields
    marked = [name for name, x in fields.items() if "sparkwright-has-problem" in x._dom_classes]
    assert marked == ["kernel_size"]
    assert "Not ready" in builder.editing.summary.value
    type_into(builder, "kernel_size", "5")
    assert builder.problem is None
    assert states(builder) == ["ok"] * 8


def test_invalid_input_is_reported_at_the_row_and_keeps_the_last_value(builder):
    heard = []
    builder.on_change(lambda part: heard.append(part.problem))
    choose(builder, 1)
    assert heard == []
    type_into(builder, "filters", "32")
    before = builder.spec
    type_into(builder, "filters", "many")
    assert heard == [None, builder.problem]
    assert "filters" in builder.problem
    assert states(builder)[1] == "problem"
    assert builder.spec == before
    choose(builder, 2)
    assert builder.problem is None


def test_typing_keeps_the_widgets_and_is_undone_in_one_step(builder):
    choose(builder, 1)
    editor = builder.editing.editor
    control, inside = editor.form.fields["filters"].control, editor.children
    for text in ("3", "", "32"):
        type_into(builder, "filters", text)
    assert editor.form.fields["filters"].control is control  # so that focus stays
    assert editor.children == inside
    builder.editing.undo_button.click()
    assert (builder.spec.layers[1].options["filters"], control.value) == (20, "20")
    builder.editing.redo_button.click()
    assert control.value == "32"
    for _ in range(2):
        builder.editing.undo_button.click()
    assert "nothing to undo" in builder.doing.value


@cases(
    "action, names, row",
    ("up", "bac", 0),
    ("down", "acb", 2),
    ("delete", "ac", 1),
    ("duplicate", ["a", "b", "b_2", "c"], 2),
    ("switch", "abc", 1),
)
def test_every_action_on_a_row_can_be_undone(action, names, row):
    spec = NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="a", options={"shape": [3]}),
            LayerSpec(kind="Dropout", name="b", options={"rate": 0.5}),
            LayerSpec(kind="Dropout", name="c", options={"rate": 0.5}),
        )
    )
    builder = NetworkBuilder(spec)
    choose(builder, 1)
    press(builder, action)
    assert [layer.name for layer in builder.spec.layers] == list(names)
    assert builder.spec != spec
    assert builder.editing.layers.selected == row
    assert f"Row {row + 1}: " in builder.editing.editor.heading.value
    is_off = builder.editing.editor.buttons["switch"].description == "Switch on"
    assert is_off is (action == "switch") is (states(builder)[1] == "off")
    builder.editing.undo_button.click()
    assert builder.spec == spec
    assert builder.editing.layers.selected == 1


def test_renaming_updates_outputs_and_duplicates_are_rejected(builder):
    choose(builder, 7)
    field = builder.editing.editor.name_form.fields["name"]
    for text in ("c", "class"):
        field.control.value = text
    assert (builder.spec.outputs[0].layer, field.control.value) == ("class", "class")
    field.control.value = "conv_2"
    assert 'role="alert"' in field.alert.value
    assert builder.problem.startswith("Row 8 (class): ")
    field.control.value = "conv_3"
    assert builder.problem is None
    builder.editing.undo_button.click()
    assert builder.spec.outputs[0].layer == "classes"


@pytest.mark.thorough
def test_merging_layer_takes_its_inputs_by_name(builder):
    choose(builder, 1)
    add(builder, "Add")
    assert "at least 2" in builder.problem
    for number, name in enumerate(("conv_1", "image")):
        builder.editing.editor.inputs.choices[number].value = name
    assert builder.spec.layers[2].inputs == ("conv_1", "image")
    offered = [choice.description for choice in builder.editing.editor.inputs.choices]
    assert offered == ["Input 1", "Input 2", "Input 3"]
    builder.editing.editor.inputs.choices[0].value = ""  # taken out
    assert builder.spec.layers[2].inputs == ("image",)


def test_matching_presets_come_first_and_the_gallery_accepts_only_presets(builder, comms):
    names = [card["name"] for card in builder.editing.gallery.cards]
    assert names == [*PRESETS, "empty"]
    builder.set_data(features={"x": (6,)}, labels={"y": ()}, classes={"y": 3})
    first, *_ = builder.editing.gallery.cards
    assert (first["name"], first["fits"]) == ("mlp", True)
    assert "fits your data" in first["html"]
    assert builder.editing._fix_buttons
    gallery = next(comm for comm in comms if comm.comm_id == builder.editing.gallery.comm.comm_id)
    for content in ({"kind": "take", "name": "rm -rf"}, {"name": []}, "mlp"):
        gallery.receive(content)
    assert builder.spec == PRESETS["lenet"].make()
    gallery.receive({"kind": "take", "name": "mlp"})
    assert builder.problem is None
    assert builder.spec.layers[0].options["shape"] == [6]
    builder.editing.undo_button.click()
    assert builder.spec == PRESETS["lenet"].make()


def test_mismatched_data_shape_is_reported_and_adopted_by_a_button(builder, monkeypatch):
    focused = []
    monkeypatch.setattr(Button, "focus", lambda button: focused.append(button.description))
    builder.set_data(features={"features": (32, 32, 3)}, labels={"y": (4, 4)})
    assert "example of features has shape 32 x 32 x 3" in builder.problem
    first, *others = builder.editing.notes_box.children
    button = first.children[1]
    assert button.description == "Use the data's shape: 32 x 32 x 3"
    button.click()
    assert builder.spec.layers[0].options["shape"] == [32, 32, 3]
    assert len(builder.editing.notes_box.children) == len(others)
    builder.set_data(features={"features": (28, 28, 1)})
    [box] = builder.editing.notes_box.children
    box.children[1].click()
    assert builder.problem is None
    assert focused[-1] == "↶ Undo"


def test_changing_the_task_selects_its_default_loss_and_metrics(builder, training):
    training.network.fields["task"].control.value = "regression"
    assert builder.spec.outputs[0].loss == "mean_squared_error"
    builder.editing.undo_button.click()
    assert training.outputs[0].form.values["loss"] == "sparse_categorical_crossentropy"
    training.add_button.click()
    assert [output.layer for output in builder.spec.outputs] == ["classes", "dense"]
    training.outputs[1].remove_button.click()
    assert [output.layer for output in builder.spec.outputs] == ["classes"]


def test_optimizer_settings_follow_its_kind(builder, training):
    training.optimizer.fields["optimizer"].control.value = "SGD"
    training.settings.fields["momentum"].control.value = "0.9"
    assert builder.spec.optimizer.to_dict() == {"kind": "SGD", "options": {"momentum": 0.9}}
    training.settings.fields["momentum"].control.value = "fast"
    assert "momentum" in builder.problem


def test_learning_rate_follows_the_selected_schedule(builder, training):
    field = training.schedule.field
    field().control.value = "cosine"
    field("warmup_steps").control.value = "50"
    assert builder.spec.optimizer.schedule == CosineSchedule(warmup_steps=50)
    field("warmup_steps").control.value = "many"
    assert "warmup_steps" in builder.problem
    field("warmup_steps").control.value = "60"
    training.settings.fields["learning_rate"].control.value = "0.01"
    training.optimizer.fields["optimizer"].control.value = "SGD"
    assert builder.spec.optimizer.schedule == CosineSchedule(warmup_steps=60)
    builder.editing.undo_button.click()
    builder.editing.undo_button.click()
    builder.editing.undo_button.click()
    assert field("warmup_steps").value == 0
    field().control.value = ""
    assert builder.spec.optimizer.schedule is None


def test_metrics_for_integer_classes_are_offered(builder, training):
    [output] = training.outputs
    assert {"macro_auc", "macro_precision", "macro_recall", "f1"} < set(output.metrics.fields)
    assert "auc" not in output.metrics.fields
    output.metrics.fields["f1"].control.value = True
    output.more.value = "true_positives"
    assert builder.spec.outputs[0].metrics == ("accuracy", "f1", "true_positives")
    output.form.fields["loss"].control.value = "dice"
    assert builder.spec.outputs[0].loss == "dice"
    output.metrics.fields["true_positives"].control.value = False
    assert builder.spec.outputs[0].metrics == ("accuracy", "f1")


def test_pasted_text_replaces_the_network(builder, pasting):
    before, other = builder.spec, PRESETS["mlp"].make()
    assert "Conv2D" in pasting.text.value
    pasting.text.value = other.to_yaml()
    pasting.apply_button.click()
    assert builder.spec == other
    builder.editing.undo_button.click()
    assert builder.spec == before


@cases("name", "keras.mlp", "import this", "a = 1")
def test_yaml_is_never_mistaken_for_code(name):
    spec = replace(PRESETS["mlp"].make(), name=name)
    assert read(spec.to_yaml()) == spec
    assert read(f"# import keras\n---\n{spec.to_yaml()}") == spec


def test_pasted_code_is_rejected_with_advice_and_not_executed(builder, pasting, tmp_path):
    file = tmp_path / "made"
    before = builder.spec
    pasting.text.value = f"import keras\nopen({str(file)!r}, 'w')\n"
    pasting.apply_button.click()
    assert "NetworkBuilder(model)" in pasting.alert.value
    assert not file.exists()
    pasting.text.value = '{"layers": [{"kind": 3}]}'
    pasting.apply_button.click()
    assert 'role="alert"' in pasting.alert.value
    assert builder.spec == before


def test_download_contains_the_text_and_has_a_safe_name(pasting, training):
    training.network.fields["name"].control.value = "../<b>my net"
    pasting.form.value = "json"
    assert 'download="b_my_net.json"' in pasting.link.value
    assert "<b>my" not in pasting.link.value


def with_layer(kind, name, **options):
    """A builder of an Input and this layer, which is selected."""
    layers = (
        LayerSpec(kind="Input", name="in", options={"shape": [4]}),
        LayerSpec(kind=kind, name=name, options=options),
    )
    builder = NetworkBuilder(NetworkSpec(layers=layers))
    choose(builder, 1)
    return builder


def test_invalid_options_are_reported_and_kept_until_fixed():
    builder = with_layer("Dense", "out", units=3, activation="magic")
    assert "magic" in builder.problem
    assert "magic" in builder.editing.editor.form.fields["activation"].alert.value
    type_into(builder, "units", "5")
    assert builder.spec.layers[1].options == {"units": 5, "activation": "magic"}
    type_into(builder, "activation", "relu")
    assert builder.spec.layers[1].options == {"units": 5, "activation": "relu"}
    assert "magic" not in (builder.problem or "")


def test_unknown_layer_can_be_viewed_moved_and_deleted():
    builder = with_layer("Sorcery", "magic", power=9)
    assert "Sorcery" in builder.problem
    press(builder, "up")
    press(builder, "delete")
    assert [layer.name for layer in builder.spec.layers] == ["in"]


@pytest.mark.thorough
def test_no_row_actions_are_offered_without_a_selected_row(builder):
    choose(builder, 0)
    press(builder, "delete")
    with pytest.raises(ConfigurationError, match="Put an Input first"):
        builder.build()
    for _ in range(8):
        press(builder, "delete")
    assert builder.spec.layers == ()
    heading, *others = builder.editing.editor.children
    assert "Choose a row" in heading.value
    assert {part.layout.display for part in others} == {"none"}
    add(builder, "Input")
    assert {part.layout.display for part in builder.editing.editor.children} == {None}
