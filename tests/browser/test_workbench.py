import re

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CODE = """\
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import sparkwright as sw
from sparkwright_widgets import Workbench
experiment = sw.Experiment(title="Handwritten digits", data=sw.data.DataSource(partitions=5))
bench = Workbench(experiment=experiment)
bench"""


STEPS = {
    "data": "Data",
    "network": "Network",
    "master": "Training master",
    "partitions": "Partitions",
    "train": "Train",
    "evaluate": "Evaluate",
    "models": "Models",
    "file": "Experiment file",
}


@pytest.fixture
def open_bench(lab_of):
    def open_bench(**options):
        page = lab_of(CODE, "after = 1", **options)
        entry(page, "data").wait_for(timeout=60_000)
        return page

    return open_bench


def entry(page, name):
    """The step in the rail."""
    titles = page.page.locator(".sparkwright-step-title")
    return page.page.locator(".sparkwright-step").filter(
        has=titles.filter(has_text=re.compile(f"^{STEPS[name]}$"))
    )


def shown(page):
    """The step that is shown: its heading and its part."""
    return page.page.locator(".sparkwright-section:visible")


def press(page, name):
    """Press a button of the header by its text."""
    page.page.locator(".sparkwright-head").get_by_role(
        "button", name=re.compile(rf"{name}$")
    ).click()


def wait_for_summary(page, name, text, timeout_s=30):
    """Wait for the line in the rail, which is in the page for every step."""
    entry(page, name).filter(has_text=re.compile(text)).wait_for(
        timeout=1000 * timeout_s, state="attached"
    )


def open_step(page, name):
    entry(page, name).click()
    shown(page).locator(".sparkwright-section-title", has_text=STEPS[name]).wait_for()


def test_model_is_trained_and_saved_without_code(open_bench):
    page = open_bench(height=1000)
    head = page.page.locator(".sparkwright-head")

    # Data: the primary button starts Spark and loads, in the background; then it leads on.
    shown(page).locator(".sparkwright-pictures img").first.wait_for()
    press(page, "Load data")
    wait_for_summary(page, "data", "train.*examples", timeout_s=90)
    press(page, "Next: network")

    # Network: break it and see where; nothing can be started, and Next leads back to it.
    wait_for_summary(page, "network", "431,080 parameters")
    shape = shown(page).get_by_label("Shape")
    shape.fill("3, 3, 1")
    wait_for_summary(page, "network", "Row 2")
    assert head.get_by_role("button", name=re.compile("Start$")).is_disabled()
    open_step(page, "train")
    shown(page).get_by_text("Start is disabled").wait_for()
    press(page, "Next: network")
    shape.fill("28, 28, 1")
    wait_for_summary(page, "network", "431,080 parameters")

    # Training master, by keys.
    press(page, "Next: training master")
    after = shown(page).get_by_label("Average after")
    after.click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("10")
    wait_for_summary(page, "master", "every 10 minibatches")

    # Partitions: what a repartition would do.
    press(page, "Next: partitions")
    shown(page).get_by_role("button", name="Count rows and labels").click()
    shown(page).get_by_text("not counted yet").wait_for(state="detached")
    shown(page).get_by_label("Strategy").select_option("approximate_balanced")
    wait_for_summary(page, "partitions", "approximate balanced")

    # Train; the page is loaded anew while the run goes on; then stop.
    press(page, "Next: train")
    shown(page).get_by_label("Epochs").fill("2000")
    press(page, "Start")
    page.wait_for_curve()
    wait_for_summary(page, "train", "epoch")
    page.save()
    page.open()
    page.wait_for_curve()
    head.locator(".sparkwright-sparkline").wait_for()
    assert page.page.locator(".sparkwright-bench .mod-primary:visible").count() == 0
    press(page, "Stop")
    wait_for_summary(page, "train", "stopped after")

    # Evaluate.
    press(page, "Next: evaluate")
    press(page, "Evaluate")
    name = page.in_kernel("print(bench.run.name)")
    wait_for_summary(page, "evaluate", f"1 evaluated; network: {name}", timeout_s=60)
    shown(page).locator("svg").first.wait_for()

    # Save, and load what was saved.
    press(page, "Next: models")
    press(page, "Save model")
    tick = shown(page).get_by_role("checkbox", name=re.compile("lenet"))
    tick.wait_for(timeout=60_000)
    tick.check()
    shown(page).get_by_role("button", name=re.compile(r"\bLoad$")).click()
    wait_for_summary(page, "evaluate", "network: .*lenet.keras", timeout_s=60)

    # The experiment is what was chosen.
    chosen = "e.master.averaging_frequency, e.epochs, e.master.repartition_strategy"
    text = page.in_kernel(f"e = bench.experiment; print({chosen})")
    assert text == "10 2000 approximate_balanced"


# Parts that are wider than they are shown, and parts with a scrollbar of their own.
TROUBLES = """() => [
  ...[...document.querySelectorAll('.sparkwright-part')]
    .filter((part) => part.scrollWidth > part.clientWidth + 1),
  ...[...document.querySelectorAll('.sparkwright-bench .widget-box')].filter((box) =>
    /auto|scroll/.test(getComputedStyle(box).overflowY) && box.scrollHeight > box.clientHeight),
].map((part) => part.className)"""
TOP = "document.querySelector('.sparkwright-bench').getBoundingClientRect().top"


def test_steps_fit_the_page_and_are_used_by_keys(open_bench, tmp_path):
    page = open_bench(height=600)
    head = page.page.locator(".sparkwright-head")
    shown(page).locator(".sparkwright-pictures img").first.wait_for()
    wait_for_summary(page, "network", "431,080 parameters")

    # The header stays in view; a shorter step starts at its top.
    open_step(page, "master")
    shown(page).get_by_role("button", name="As YAML or JSON").scroll_into_view_if_needed()
    page.page.wait_for_function(f"() => {TOP} < -100")
    top = page.page.locator(".jp-WindowedPanel-outer").first.bounding_box()["y"]
    assert abs(head.bounding_box()["y"] - top) < 2
    press(page, "Next: partitions")
    shown(page).locator(".sparkwright-section-title", has_text="Partitions").wait_for()
    page.page.wait_for_function(f"(top) => {TOP} >= top", arg=top - 2)
    title = shown(page).locator(".sparkwright-section-title").bounding_box()["y"]
    assert title > head.bounding_box()["y"] + head.bounding_box()["height"]

    # A problem has a button.
    open_step(page, "data")
    path = tmp_path / "rows.csv"
    lines = [f"{n},{'' if n % 5 == 0 else n % 7},{'xy'[n % 2]}" for n in range(400)]
    path.write_text("\n".join(["size,age,kind", *lines]))
    shown(page).get_by_label("Format", exact=True).press("C")  # CSV, by typing ahead
    place = shown(page).get_by_label("Path or URL")
    place.fill(str(tmp_path / "missing.csv"))
    place.press("Enter")
    wait_for_summary(page, "data", "does not exist")
    wait_for_summary(page, "train", "does not exist")
    place.fill(str(path))
    place.press("Enter")
    skip = shown(page).get_by_role("button", name="Skip 80 rows")
    skip.press("Enter")
    skip.wait_for(state="detached")
    assert page.in_kernel("print(dict(bench.experiment.data.options))") == "{'missing': 'skip'}"
    open_step(page, "train")
    shown(page).locator("summary", has_text="Help: Epochs").press("Enter")
    shown(page).get_by_text("Passes over the data.").wait_for()

    # An error is shown at its field.
    open_step(page, "master")
    workers = shown(page).get_by_label("Workers", exact=True)
    problem = shown(page).get_by_role("alert").filter(has_text="`workers` must be")
    workers.fill("0")
    problem.wait_for()
    workers.fill("2")
    problem.wait_for(state="detached")
    for fold in ("Gradient sharing", "Encoding", "Failures and diagnostics"):
        shown(page).get_by_role("button", name=fold).press("Enter")
    shown(page).get_by_label("When a loss is NaN or infinite").wait_for()

    for width, theme in ((1280, "Light"), (420, "Dark")):
        page.set_theme(theme)
        page.page.set_viewport_size({"width": width, "height": 600})
        for name in STEPS:
            open_step(page, name)
            assert page.page.evaluate(TROUBLES) == [], f"{name} at {width} pixels"
