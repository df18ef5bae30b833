import sys
import threading
from dataclasses import replace

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, CosineSchedule, LayerSpec, NetworkSpec, keras_catalog
from sparkwright_widgets._network_builder import NetworkBuilder
from sparkwright_widgets._network_builder._data_fit import misfits
from sparkwright_widgets._network_builder._network_text import read
from sparkwright_widgets._ui import Button

pytestmark = pytest.mark.usefixtures("comms", "keras_loaded")


@pytest.fixture
def builder():
    return NetworkBuilder()


def states(builder):
    return [row["state"] for row in builder.editing.layers.rows]


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
    loading.set()
    assert builder.analysis.parameters == 431_080  # waits
    assert heard == [None]
    assert states(builder) == ["ok"] * 8
    choose(builder, 1)
    type_into(builder, "filters", "3")
    assert builder.spec.layers[1].options["filters"] == 3


def test_a_rejected_name_stays_while_keras_loads(loading):
    builder = NetworkBuilder()
    choose(builder, 1)
    field = builder.editing.editor.name_form.fields["name"]
    field.control.value = "conv_2"
    builder.set_data(features={"features": (28, 28, 1)})
    assert field is builder.editing.editor.name_form.fields["name"]
    assert field.control.value == "conv_2"
    assert 'role="alert"' in field.alert.value


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


def test_each_keystroke_compares_network_and_data_once(builder, monkeypatch):
    compared = []

    def count(*arguments):
        compared.append(arguments)
        return misfits(*arguments)

    monkeypatch.setattr("sparkwright_widgets._network_builder._editing_pane.misfits", count)
    builder.set_data(features={"features": (28, 28, 1)})
    choose(builder, 1)
    builder.on_change(lambda part: part.problem)
    compared.clear()
    type_into(builder, "filters", "7")
    # A builder of another test may still compare: its thread has just loaded Keras.
    assert [spec for spec, *_ in compared if spec == builder.spec] == [builder.spec]


def test_every_layer_of_keras_can_be_added(builder):
    kinds = [value for _, value in builder.editing.kind.options]
    assert kinds[:2] == ["Input", "Dense"]
    assert {"EinsumDense", "ConvLSTM2D"} <= set(kinds)
    add(builder, "RandomFlip", mode="horizontal")
    assert builder.spec.layers[1].options == {"mode": "horizontal"}


@pytest.mark.thorough
def test_lenet_is_built_from_an_empty_network():
    builder = NetworkBuilder(NetworkSpec())
    assert "no layers" in builder.problem
    add(builder, "Input", shape="28, 28, 1")
    for filters in ("20", "50"):
        add(builder, "Conv2D", filters=filters, kernel_size="5", activation="relu")
        add(builder, "MaxPooling2D")
    add(builder, "Flatten")
    add(builder, "Dense", units="500", activation="relu")
    add(builder, "Dense", units="10", activation="softmax")
    assert builder.problem is None
    shapes = [row.output_shape for row in builder.analysis.rows]
    lenet = PRESETS["lenet"].make().analysis
    assert shapes == [row.output_shape for row in lenet.rows]
    assert builder.analysis.parameters == lenet.parameters
    assert [output.layer for output in builder.spec.outputs] == [builder.spec.layers[-1].name]


def test_too_large_kernel_invalidates_its_row_until_fixed(builder):
    choose(builder, 3)
    type_into(builder, "kernel_size", "31")
    assert builder.problem.startswith("Row 4 (conv_2): ")
    assert states(builder) == ["ok"] * 3 + ["problem"] + ["waiting"] * 4
    assert "Not ready" in builder.editing.summary.value
    type_into(builder, "kernel_size", "5")
    assert builder.problem is None
    assert states(builder) == ["ok"] * 8


def test_invalid_input_is_reported_at_the_row_and_keeps_the_last_value(builder):
    choose(builder, 1)
    before = builder.spec
    type_into(builder, "filters", "many")
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


@pytest.mark.parametrize(
    ("action", "names", "row"),
    [
        ("up", ["b", "a", "c"], 0),
        ("down", ["a", "c", "b"], 2),
        ("delete", ["a", "c"], 1),
        ("duplicate", ["a", "b", "b_2", "c"], 2),
        ("switch", ["a", "b", "c"], 1),
    ],
)
def test_every_action_on_a_row_can_be_undone(action, names, row):
    shape, rate = {"shape": [3]}, {"rate": 0.5}
    rows = (("Input", "a", shape), ("Dropout", "b", rate), ("Dropout", "c", rate))
    spec = NetworkSpec(
        layers=tuple(LayerSpec(kind=kind, name=name, options=given) for kind, name, given in rows)
    )
    builder = NetworkBuilder(spec)
    choose(builder, 1)
    press(builder, action)
    assert [layer.name for layer in builder.spec.layers] == names
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
    first, _second = builder.editing.editor.inputs.choices[0], None
    first.value = "conv_1"
    builder.editing.editor.inputs.choices[1].value = "image"
    assert builder.spec.layers[2].inputs == ("conv_1", "image")
    assert [choice.description for choice in builder.editing.editor.inputs.choices] == [
        "Input 1",
        "Input 2",
        "Input 3",
    ]
    builder.editing.editor.inputs.choices[0].value = ""  # taken out
    assert builder.spec.layers[2].inputs == ("image",)


def test_graph_follows_the_network_including_chains(builder):
    graph = builder.editing.layers.graph
    assert graph.count("data-row") == 8
    assert "24 x 24 x 20" in graph
    choose(builder, 3)
    type_into(builder, "kernel_size", "31")
    assert "sparkwright-node-problem" in builder.editing.layers.graph


def fix_buttons(builder):
    return {button.description: button for button in builder.editing._fix_buttons}


def test_problem_is_solved_by_its_button_and_the_field_updates(builder, monkeypatch):
    focused = []
    monkeypatch.setattr(Button, "focus", lambda button: focused.append(button.description))
    choose(builder, 3)
    type_into(builder, "kernel_size", "31")
    assert "its kernel, 31 x 31, is larger than its input, 12 x 12." in builder.problem
    assert list(fix_buttons(builder)) == ["Use 5", "Same padding"]
    fields = builder.editing.editor.form.fields
    marked = [name for name, x in fields.items() if "sparkwright-has-problem" in x._dom_classes]
    assert marked == ["kernel_size"]
    fix_buttons(builder)["Use 5"].click()
    assert builder.problem is None
    assert builder.editing.editor.form.fields["kernel_size"].control.value == "5"
    assert fix_buttons(builder) == {}
    assert focused == ["↶ Undo"]
    builder.editing.undo_button.click()
    assert "31 x 31" in builder.problem


def test_matching_presets_come_first_and_the_gallery_accepts_only_presets(builder, comms):
    names = [card["name"] for card in builder.editing.gallery.cards]
    assert names == [*PRESETS, "empty"]
    builder.set_data(features={"x": (6,)}, labels={"y": ()}, classes={"y": 3})
    first, *_ = builder.editing.gallery.cards
    assert (first["name"], first["fits"]) == ("mlp", True)
    assert "fits your data" in first["html"]
    assert fix_buttons(builder)
    gallery = next(comm for comm in comms if comm.comm_id == builder.editing.gallery.comm.comm_id)
    for content in ({"kind": "take", "name": "rm -rf"}, {"name": []}, "mlp"):
        gallery.receive(content)
    assert builder.spec == PRESETS["lenet"].make()
    gallery.receive({"kind": "take", "name": "mlp"})
    assert builder.problem is None
    assert builder.spec.layers[0].options["shape"] == [6]


def test_preset_replaces_the_network_and_can_be_undone(builder):
    choose(builder, 1)
    press(builder, "delete")
    before = builder.spec
    builder.editing._take_preset("lenet")
    assert builder.spec == PRESETS["lenet"].make()
    builder.editing.undo_button.click()
    assert builder.spec == before


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


def test_listeners_receive_changes_and_errors_but_not_selections(builder):
    heard = []
    builder.on_change(lambda part: heard.append(part.problem))
    choose(builder, 1)
    assert heard == []
    type_into(builder, "filters", "32")
    type_into(builder, "filters", "")
    assert heard[0] is None
    assert "filters" in heard[1]


def test_changing_the_task_selects_its_default_loss_and_metrics(builder, training):
    training.network.fields["task"].control.value = "regression"
    assert builder.spec.outputs[0].loss == "mean_squared_error"
    builder.editing.undo_button.click()
    assert training.outputs[0].form.values["loss"] == "sparse_categorical_crossentropy"


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
    assert builder.spec.outputs[0].metrics == ("accuracy", "f1")
    assert builder.spec.build().compiled
    assert builder.problem is None


def test_second_output_is_added_and_removed(builder, training):
    training.add_button.click()
    assert [output.layer for output in builder.spec.outputs] == ["classes", "dense"]
    training.outputs[1].remove_button.click()
    assert [output.layer for output in builder.spec.outputs] == ["classes"]


def test_every_keras_metric_and_loss_can_be_selected(builder, training):
    [output] = training.outputs
    output.more.value = "true_positives"
    assert builder.spec.outputs[0].metrics == ("accuracy", "true_positives")
    output.form.fields["loss"].control.value = "dice"
    assert builder.spec.outputs[0].loss == "dice"
    assert "true_positives" in builder.spec.outputs[0].metrics
    output.metrics.fields["true_positives"].control.value = False
    assert "true_positives" not in builder.spec.outputs[0].metrics


@pytest.mark.parametrize("key", ["json", "yaml"])
def test_text_round_trips(builder, key):
    builder.editing.folds["text"].set_opened(True)
    builder.editing.text.form.value = key
    text = builder.editing.text.text.value
    assert "Conv2D" in text
    other = NetworkBuilder(NetworkSpec())
    other.editing.folds["text"].set_opened(True)
    other.editing.text.text.value = text
    other.editing.text.apply_button.click()
    assert other.spec == builder.spec
    other.editing.undo_button.click()
    assert other.spec == NetworkSpec()


@pytest.mark.parametrize("name", ["keras.mlp", "import this", "a = 1"])
def test_yaml_is_never_mistaken_for_code(name):
    spec = replace(PRESETS["mlp"].make(), name=name)
    assert read(spec.to_yaml()) == spec
    assert read(f"# import keras\n---\n{spec.to_yaml()}") == spec


def test_invalid_pasted_text_is_reported_and_keeps_the_network(builder):
    builder.editing.folds["text"].set_opened(True)
    before = builder.spec
    builder.editing.text.text.value = '{"layers": [{"kind": 3}]}'
    builder.editing.text.apply_button.click()
    assert builder.spec == before
    assert 'role="alert"' in builder.editing.text.alert.value
    assert builder.editing.text.text.value == '{"layers": [{"kind": 3}]}'
    choose(builder, 1)
    type_into(builder, "filters", "7")  # a change elsewhere does not overwrite it either
    assert builder.editing.text.text.value == '{"layers": [{"kind": 3}]}'
    builder.editing.text.drop_button.click()
    assert "Conv2D" in builder.editing.text.text.value


def test_pasted_code_is_rejected_with_advice_and_not_executed(builder, tmp_path):
    builder.editing.folds["text"].set_opened(True)
    file = tmp_path / "made"
    builder.editing.text.text.value = f"import keras\nopen({str(file)!r}, 'w')\n"
    builder.editing.text.apply_button.click()
    assert "NetworkBuilder(model)" in builder.editing.text.alert.value
    assert not file.exists()


def test_download_contains_the_text_and_has_a_safe_name(builder):
    builder.editing.folds["text"].set_opened(True)
    builder.editing.folds["training"].set_opened(True)
    builder.editing.training.network.fields["name"].control.value = "../<b>my net"
    builder.editing.text.form.value = "json"
    assert 'download="b_my_net.json"' in builder.editing.text.link.value
    assert "<b>my" not in builder.editing.text.link.value


def test_invalid_options_are_reported_and_kept_until_fixed():
    layers = (
        LayerSpec(kind="Input", name="in", options={"shape": [4]}),
        LayerSpec(kind="Dense", name="out", options={"units": 3, "activation": "magic"}),
    )
    builder = NetworkBuilder(NetworkSpec(layers=layers))
    assert "magic" in builder.problem
    choose(builder, 1)
    assert "magic" in builder.editing.editor.form.fields["activation"].alert.value
    type_into(builder, "units", "5")
    assert builder.spec.layers[1].options == {"units": 5, "activation": "magic"}
    type_into(builder, "activation", "relu")
    assert builder.spec.layers[1].options == {"units": 5, "activation": "relu"}
    assert "magic" not in (builder.problem or "")


def test_unknown_layer_can_be_viewed_moved_and_deleted():
    layers = (
        LayerSpec(kind="Input", name="in", options={"shape": [4]}),
        LayerSpec(kind="Sorcery", name="magic", options={"power": 9}),
    )
    builder = NetworkBuilder(NetworkSpec(layers=layers))
    choose(builder, 1)
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


@pytest.mark.thorough
def test_sixty_layers_need_no_more_widgets_than_six(comms):
    def made_by(count):
        before = len(comms)
        layers = [LayerSpec(kind="Input", name="in", options={"shape": [4]})]
        layers += [
            LayerSpec(kind="Dense", name=f"d{i}", options={"units": 4}) for i in range(count)
        ]
        NetworkBuilder(NetworkSpec(layers=tuple(layers)))
        return len(comms) - before

    assert made_by(60) == made_by(6)


@pytest.mark.thorough
def test_closing_closes_every_widget_including_replaced_ones(comms):
    builder = NetworkBuilder()
    builder.editing.folds["training"].set_opened(True)
    builder.editing.training.add_button.click()
    builder.editing.training.outputs[1].remove_button.click()
    builder.editing.training.optimizer.fields["optimizer"].control.value = "SGD"
    for row in (3, 2, 7):
        choose(builder, row)
    add(builder, "Add")
    builder.set_data(features={"features": (9, 9, 1)})
    builder.set_data(features={"features": (28, 28, 1)})
    builder.close()
    left = [comm.sent[0][1] for comm in comms if comm.sent[-1][0] != "comm_close"]
    names = [message["state"]["_model_name"] for message in left]
    assert set(names) <= {"LayoutModel"}  # of boxes whose layout ipywidgets made by itself
