from pathlib import Path

FAKE_STORE = Path(__file__).parents[1] / "widgets" / "fake_store.py"
CELL = """
from types import SimpleNamespace
from fake_store import FOLDER, FakeStore, info
from sparkwright_widgets._model_store import ModelStore
store = ModelStore(SimpleNamespace(name="lenet"), url=FOLDER)
store.metrics = {"accuracy": 0.9712}
store._operations = FakeStore(
    info("lenet.keras", metrics={"accuracy": 0.9655, "loss": 0.112}, parameters=61706,
         title="two convolutions", training={"epochs": 5, "master": {"workers": 2}}),
    info("lenet-wide.keras", metrics={"accuracy": 0.9701, "loss": 0.103}, parameters=241706,
         title="twice as wide", training={"epochs": 5, "master": {"workers": 4}}),
    info("a_rather_long_name_of_a_model_that_somebody_saved_without_a_title.keras"),
    info("broken.keras", problem="a model file must be a ZIP archive", saved_at=None),
)
store
"""


def test_models_are_listed_compared_saved_and_deleted_by_keys(lab_of):
    page = lab_of(CELL, files=[FAKE_STORE], height=1900)
    at = page.page
    page.press("List models")
    at.get_by_text("4 models in hdfs://name/models").wait_for()
    at.locator("button:focus", has_text="List models").wait_for()
    for name in ("lenet.keras", "lenet-wide.keras"):
        at.get_by_role("checkbox", name=name, exact=True).press("Space")
    at.get_by_text("Selected: ").wait_for()
    page.press("Compare")
    at.get_by_role("cell", name="0.9655 (-0.0046)").wait_for()
    at.get_by_role("textbox", name="File name").fill("lenet")
    page.press("Save", exact=True)
    at.get_by_role("alert").filter(has_text="There is a file at").wait_for()
    at.locator("button:focus", has_text="Keep it").press("Enter")
    at.get_by_text("Nothing was changed.").wait_for()
    at.locator("button:focus", has_text="Save").wait_for()
    page.press("Delete …")
    at.get_by_role("button", name="Delete permanently").wait_for()
    page.show_at("model-store", 1280, "Light")
    page.show_at("model-store", 420, "Dark")
    page.press("Delete permanently")
    at.get_by_text("2 models in hdfs://name/models").wait_for()
    assert page.in_kernel("print(len(store.models))") == "2"
