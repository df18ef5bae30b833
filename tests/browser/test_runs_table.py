from pathlib import Path

RECORDED = Path(__file__).parents[1] / "runs" / "recorded.py"
STORE = """
from recorded import begin, train
from sparkwright.runs import RunStore
from sparkwright_widgets import RunsTable
store = RunStore("runs.sqlite")
train(store, name="brisk-heron", epochs=2, optimizer={"name": "Adam", "learning_rate": 0.001})
train(store, name="calm-otter", epochs=3, optimizer={"name": "Adam", "learning_rate": 0.01})
train(store, name="a-rather-long-name-of-a-run-that-somebody-gave", epochs=3,
      optimizer={"name": "SGD", "learning_rate": 0.01, "momentum": 0.9})
train(store, name="broken", epochs=1, error=ValueError("no such column"))
store.tag("calm-otter", "baseline", "<i>digits")
_, engine, recorder = begin(store, name="going-on", epochs=20)
"""


def test_runs_are_selected_compared_tagged_and_deleted_by_keys(lab_of):
    cells = (STORE, "table = RunsTable(store)\ntable")
    page = lab_of(*cells, files=[RECORDED], width=1280, height=1500)
    at = page.page
    at.get_by_role("row", name="going-on").get_by_text("Training").wait_for()
    assert at.get_by_role("cell", name="just now").count() == 5
    for name in ("brisk-heron", "calm-otter"):
        at.get_by_role("checkbox", name=name, exact=True).press("Space")
        at.get_by_role("heading", name="Runs").wait_for()
    at.get_by_role("region", name="Results of the runs").wait_for()
    at.get_by_text("5 runs; 2 selected.").wait_for()
    # A run of another kernel ends: the table follows, the ticks stay.
    page.in_kernel("engine.may_end.set()")
    at.get_by_role("row", name="going-on").get_by_text("Done").wait_for()
    assert at.get_by_role("checkbox", name="calm-otter", exact=True).is_checked()
    page.show_at("runs", 1280, "Light")
    at.get_by_role("button", name="Loss", exact=True).click()
    first = at.locator(".sparkwright-runs tbody tr").first
    assert first.locator("label").inner_text().strip() == "broken"
    at.get_by_role("textbox", name="Tag", exact=True).fill("kept")
    page.press("Add tag")
    at.get_by_role("row", name="brisk-heron").get_by_text("kept").wait_for()
    page.show_at("runs", 420, "Dark")
    page.press("Delete …")
    at.get_by_role("alert").filter(has_text="Delete 2 runs?").wait_for()
    page.press("Delete permanently")
    at.get_by_text("3 runs; select runs").wait_for()
    assert page.in_kernel("print(len(store.runs()))") == "3"
