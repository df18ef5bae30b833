from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from tests.widgets.fake_store import FOLDER, FakeStore, info

from sparkwright.errors import ConfigurationError
from sparkwright.storage import ModelInfo
from sparkwright_widgets._model_store import ModelStore
from sparkwright_widgets._model_store._catalog import NAME, PAGE, Catalog, details, file_name
from sparkwright_widgets._model_store._comparing import compared
from sparkwright_widgets._model_store._operations import Operations


@pytest.fixture
def store(comms):
    """A listed store of three models, one of them damaged."""
    part = ModelStore(SimpleNamespace(name="lenet"), url=FOLDER)
    part._operations = FakeStore(
        info("a.keras", metrics={"accuracy": 0.9}, title="first"),
        info("b.keras", metrics={"accuracy": 0.95}, parameters=10, saved_by="<me>"),
        info("c.keras", problem="no <zip>", saved_at=None),
    )
    part.refresh()
    settled(part)
    return part


def settled(part):
    """Wait for what was begun, and for the listing that follows."""
    assert part.settle(20)


def press(part, button):
    button.click()
    settled(part)


def tick(part, *names):
    for row in part.rows.rows.children:
        box = row.children[0]
        box.value = any(name in box.description for name in names)


names = st.lists(st.text("abc", min_size=1, max_size=4), unique=True, max_size=40)


@given(names, st.text("abc", max_size=2), st.integers(-2, 9))
def test_pages_contain_each_requested_model_once(names, wanted, page):
    models = tuple(info(f"{name}.keras") for name in names)
    catalog = Catalog(folder_url=FOLDER, models=models, wanted=wanted, order=NAME, page=page)
    assert 0 <= catalog.number < catalog.pages
    pages = [replace(catalog, page=number).shown for number in range(catalog.pages)]
    assert max(map(len, pages)) <= PAGE
    seen = [catalog.name_of(found) for shown in pages for found in shown]
    assert seen == sorted(f"{name}.keras" for name in names if wanted in f"{name}.keras")


def test_models_are_sorted_by_any_available_metric():
    models = (
        info("a", metrics={"accuracy": 0.5, "name": "x"}),
        info("b", metrics={"accuracy": 0.9}),
        info("c", metrics={"accuracy": float("nan")}),
        info("d"),
    )
    catalog = Catalog(folder_url=FOLDER, models=models, order="by accuracy")
    assert "by name" not in catalog.orders
    assert [catalog.name_of(found) for found in catalog.found] == ["b", "a", "c", "d"]


def test_details_are_one_bounded_line():
    line = details(info("a", comment="x\n" * 500, metrics={"loss": 0.25}))
    assert "\n" not in line
    assert len(line) < 300
    assert "loss 0.25" in line


@pytest.mark.parametrize(
    "name",
    ["", "  ", "..", "a/../b", "/a", "a//b", ".a", "_a", "a:b", "a*", "a\nb", "a.h5", "x" * 999],
)
def test_invalid_model_names_raise(name):
    with pytest.raises(ConfigurationError, match="Received: "):
        file_name(name)


def test_differences_are_marked_with_their_amount():
    models = [
        info("a", metrics={"accuracy": 0.9}, training={"master": {"workers": 2}}, parameters=5),
        info("b", metrics={"accuracy": 0.95}, training={"master": {"workers": 4}}, parameters=5,
             title="x"),
    ]  # fmt: skip
    heads, rows = compared(models, ["a", "b"])
    assert heads == ["≠ differs, = same", "a", "b"]
    assert ["= parameters", "5", "5"] in rows
    _, differing = compared(models, ["a", "b"], only_differences=True)
    assert sorted(differing) == [
        ["≠ metric accuracy", "0.9", "0.95 (+0.05)"],
        ["≠ title", "—", "x"],
        ["≠ training master workers", "2", "4 (+2)"],
    ]


def test_names_generated_by_keras_are_not_differences():
    models = [
        ModelInfo(url=name, size_bytes=1, name=name, inputs={tensor: (None, length)})
        for name, tensor, length in (
            ("sequential", "keras_tensor", 4),
            ("sequential_3", "keras_tensor_8", 4),
            ("sequential_5", "keras_tensor_9", 5),
        )
    ]
    assert compared(models[:2], ["a", "b"], only_differences=True)[1] == []
    _, rows = compared([models[0], models[2]], ["a", "c"], only_differences=True)
    assert rows == [["≠ input", "(any, 4)", "(any, 5)"]]
    two = {"input_1": (None, 4), "price": (None, 1)}
    _, rows = compared([info("d", inputs=two)], ["d"])
    assert {"= input 1", "= input price"} <= {row[0] for row in rows}


def test_malicious_file_produces_a_bounded_comparison():
    deep = {}
    for _ in range(100):
        deep = {"k": deep, "v": 1}
    wide = {f"m{n}": n for n in range(10_000)}
    _, rows = compared([info("a", metrics=wide, training=deep)], ["a"])
    assert len(rows) <= 200
    assert max(len(str(cell)) for row in rows for cell in row) < 400


def test_models_are_listed_newest_first_with_their_figures(store):
    labels = [row.children[0].description for row in store.rows.rows.children]
    assert labels == ["a.keras", "b.keras", "✕ c.keras"]
    shown = "".join(row.children[1].value for row in store.rows.rows.children)
    assert "accuracy 0.95" in shown
    assert "no &lt;zip&gt;" in shown
    assert "3 models in hdfs://name/models" in store.rows.found.value
    assert "Select a model" in store.hint.value
    bundle = store._repr_mimebundle_()
    assert "3 models in hdfs://name/models" in bundle["text/plain"]
    assert "no &lt;zip&gt;" in bundle["text/html"]


def test_buttons_are_disabled_until_usable(store):
    assert store.load_button.disabled
    assert store.delete_button.disabled
    tick(store, "a.keras")
    assert not store.load_button.disabled
    assert store.compare_button.disabled
    tick(store, "a.keras", "b.keras")
    assert store.load_button.disabled
    assert not store.compare_button.disabled
    tick(store, "c.keras")
    assert store.load_button.disabled
    assert "cannot be loaded" in store.hint.value


def test_save_writes_the_form_values_and_refreshes_the_list(store):
    store.form.title_field.value = " a title "
    store.form.comment_field.value = "why"
    store.form.updater_field.value = False
    store.metrics = {"accuracy": 0.5}
    assert "accuracy 0.5" in store.form.hint.value
    press(store, store.save_button)
    ((network, url, settings),) = store._operations.names("save")
    assert network is store.network
    assert url == f"{FOLDER}/lenet.keras"
    assert settings == {
        "save_updater": False,
        "title": "a title",
        "comment": "why",
        "metrics": {"accuracy": 0.5},
    }
    assert "Saved to" in store.form.outcome.value
    assert len(store.models) == 4
    assert not store.replacing.asking


def test_form_offers_normalizer_placement_if_there_is_a_normalizer(store):
    assert store.form.normalizer_field.layout.display == "none"
    store.network = SimpleNamespace(
        name="scaled", spark=None, model=None, master=None, save=None, normalizer=object()
    )
    assert store.form.normalizer_field.layout.display is None
    for value, place in ((True, "inside"), (False, "beside")):
        store.form.normalizer_field.value = value
        store.form.name_field.value = place
        press(store, store.save_button)
        assert store._operations.names("save")[-1][2]["normalizer"] == place


def test_file_is_replaced_only_after_a_second_press(store):
    store.form.name_field.value = "a"
    press(store, store.save_button)
    assert store._operations.names("save") == []
    assert "There is a file" in store.replacing.question.value
    assert "first" in store.replacing.question.value
    store.replacing.no_button.click()
    assert not store.replacing.asking
    assert "Nothing was changed" in store.form.outcome.value
    press(store, store.replacing.yes_button)
    assert store._operations.names("save") == []


def test_invalid_name_is_reported_and_nothing_is_saved(store):
    store.form.name_field.value = "../a"
    store.save_button.click()
    assert "stay within the folder" in store.error.value
    assert store._operations.names("there") == []


def test_nothing_can_be_saved_without_a_network(comms):
    store = ModelStore(url=FOLDER)
    assert store.save_button.disabled
    assert "no network to save" in store.form.hint.value
    with pytest.raises(ConfigurationError, match="network=None"):
        store.save()


def test_load_passes_the_network_to_the_callback(store):
    loaded, changed = [], []
    store.on_load(loaded.append)
    store.on_change(changed.append)
    tick(store, "b.keras")
    press(store, store.load_button)
    assert store._operations.names("load") == [(f"{FOLDER}/b.keras",)]
    assert loaded == [store.network]
    assert store.network.name == "loaded"
    assert changed == [store]
    assert store.form.name_field.placeholder == "loaded"


def test_custom_loader_loads_the_network(comms):
    asked, given = [], []
    network = SimpleNamespace(name="own")
    part = ModelStore(url=FOLDER, loader=lambda url: asked.append(url) or network)
    part._operations = FakeStore(info("a.keras"))
    part.on_load(given.append)
    part.load(f"{FOLDER}/a.keras")
    settled(part)
    assert asked == [f"{FOLDER}/a.keras"]
    assert part.network is network
    assert given == [network]


def test_failing_listener_is_shown(store):
    store.on_load(lambda network: 1 / 0)
    store.load(f"{FOLDER}/a.keras")
    settled(store)
    assert "division by zero" in store.error.value


def test_comparison_shows_differences_and_all(store):
    tick(store, "a.keras", "b.keras")
    store.compare_button.click()
    assert "0.95 (+0.05)" in store.comparison.value
    assert "&lt;me&gt;" in store.comparison.value
    assert "= format" not in store.comparison.value
    store.differences_field.value = False
    assert "= format" in store.comparison.value


def test_checking_reports_on_each_model(store):
    tick(store, "a.keras", "c.keras")
    press(store, store.check_button)
    assert "✓ a.keras: all parts match" in store.outcome.value
    assert "✕ c.keras: damaged &lt;part&gt;" in store.outcome.value


def test_another_prompt_does_not_confirm_the_first(store):
    tick(store, "a.keras")
    store.delete_button.click()
    store.form.name_field.value = "b"
    press(store, store.save_button)
    press(store, store.replacing.yes_button)
    assert store._operations.names("delete") == []
    assert len(store._operations.names("save")) == 1
    assert not store.deleting.asking


def test_failing_store_is_reported_and_buttons_are_enabled_again(store):
    store._operations.error = OSError("hdfs://name/models could not be listed: <down>")
    press(store, store.list_button)
    assert "&lt;down&gt;" in store.error.value
    assert not store.list_button.disabled
    store._operations.error = PermissionError("not yours")
    store.delete([f"{FOLDER}/a.keras"])
    settled(store)
    assert "a.keras: not yours" in store.outcome.value + store.error.value


def test_unresponsive_store_times_out(comms):
    store = ModelStore(url=FOLDER, timeout_s=0.2)
    store._operations = fake = FakeStore()
    fake.hangs.clear()
    press(store, store.list_button)
    assert "must answer within 0.2 s" in store.error.value
    assert not store.list_button.disabled
    fake.hangs.set()


def test_no_other_action_can_start_during_a_store_request(store):
    store._operations.hangs.clear()
    tick(store, "a.keras")
    store.list_button.click()
    assert "times out after 30 s" in store.doing.value
    assert store.list_button.disabled
    assert store.save_button.disabled
    assert store.load_button.disabled
    assert not store.refresh()
    store._operations.hangs.set()
    settled(store)
    assert not store.load_button.disabled


def test_response_for_another_folder_is_dropped(store):
    store._operations.hangs.clear()
    store.refresh()
    told = []
    store.on_change(told.append)
    store.url_field.value = "memory://m "
    assert store.url == "memory://m"
    store._operations.hangs.set()
    settled(store)
    assert store.models == ()
    assert "Press List models" in store.hint.value
    assert told == [store]
    store.url = "/models"
    assert store.url_field.value == "/models"


def test_file_is_replaced_in_the_folder_of_the_prompt(store):
    operations = store._operations
    operations.hangs.clear()
    store.form.name_field.value = "a"
    store.save_button.click()
    store.url_field.value = "/elsewhere"
    operations.hangs.set()
    settled(store)
    store.url_field.value = "/elsewhere/still"
    assert f"There is a file at {FOLDER}/a.keras" in store.replacing.question.value
    press(store, store.replacing.yes_button)
    assert [call[1] for call in operations.names("save")] == [f"{FOLDER}/a.keras"]
    assert f"Saved to {FOLDER}/a.keras" in store.form.outcome.value


def test_many_models_are_shown_in_pages(comms):
    store = ModelStore(url=FOLDER)
    assert store._still() is None
    store._operations = FakeStore(*(info(f"m{n:03}.keras") for n in range(100)))
    store.refresh()
    settled(store)
    assert len(store.rows.rows.children) == PAGE
    tick(store, "m003")
    store.rows.later_button.click()
    assert store.rows.rows.children[0].children[0].description == "m012.keras"
    assert [found.url for found in store.ticked] == [f"{FOLDER}/m003.keras"]
    store.rows.find_field.value = "M05"
    assert len(store.rows.rows.children) == 10
    assert "10 found" in store.rows.found.value


def test_missing_folder_has_no_models_and_other_files_have_a_problem(tmp_path):
    operations, path = Operations(), tmp_path / "x.keras"
    assert len(operations.list(str(tmp_path / "none"), recursive=False)) == 0
    with pytest.raises(FileNotFoundError):
        operations.list(str(tmp_path / "none" / "*.keras"), recursive=False)
    assert operations.there(str(path)) is None
    path.write_bytes(b"no model")
    assert operations.there(str(path)).problem


def test_real_model_is_saved_checked_loaded_and_deleted(comms, tmp_path):
    import keras
    import numpy as np

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="small")
    store = ModelStore(model, url=str(tmp_path / "models"))
    store.metrics = {"loss": 0.5}
    press(store, store.save_button)
    assert [found.metrics for found in store.models] == [{"loss": 0.5}], store.error.value
    tick(store, "small.keras")
    press(store, store.check_button)
    assert "all parts match" in store.outcome.value
    press(store, store.load_button)
    assert store.network is not model
    assert np.array_equal(store.network.get_weights()[0], model.get_weights()[0])
    store.delete_button.click()
    assert "Delete small.keras from" in store.deleting.question.value
    assert len(store.models) == 1
    press(store, store.deleting.yes_button)
    assert store.models == store.ticked == ()
    assert "Deleted small.keras" in store.outcome.value
    assert list((tmp_path / "models").iterdir()) == []
