"""The workbench in JupyterLab on real Spark, by clicks and keys, from data to a saved model."""

import re

import pytest
from tests.browser.conftest import SCREENSHOTS

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.slow]

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


def bench_of(page):
    return page.page.locator(".sparkwright-bench")


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


def photograph(page, name):
    """A picture of the whole workbench, for the documents."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    seen = page.page.viewport_size
    page.page.set_viewport_size({**seen, "height": 2400})  # all of the step at once
    bench_of(page).screenshot(path=SCREENSHOTS / f"workbench-{name}.png")
    page.page.set_viewport_size(seen)


def test_model_is_trained_and_saved_without_code(open_bench):
    page = open_bench(height=1000)  # of it the documents show pictures
    head = page.page.locator(".sparkwright-head")

    # Data: the primary button starts Spark and loads, in the background; then it leads on.
    shown(page).locator(".sparkwright-pictures img").first.wait_for()
    press(page, "Load data")
    wait_for_summary(page, "data", "train.*examples", timeout_s=90)
    photograph(page, "data")
    press(page, "Next: network")

    # Network: break it and see where; nothing can be started, and Next leads back to it.
    wait_for_summary(page, "network", "431,080 parameters")
    shape = shown(page).get_by_label("Shape")
    shape.fill("3, 3, 1")
    wait_for_summary(page, "network", "Row 2")
    photograph(page, "broken")
    assert head.get_by_role("button", name=re.compile("Start$")).is_disabled()
    open_step(page, "train")
    shown(page).get_by_text("Start is disabled").wait_for()
    press(page, "Next: network")
    shape.fill("28, 28, 1")
    wait_for_summary(page, "network", "431,080 parameters")
    photograph(page, "network")

    # Training master, by keys.
    press(page, "Next: training master")
    after = shown(page).get_by_label("Average after")
    after.click()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("10")
    wait_for_summary(page, "master", "every 10 minibatches")
    photograph(page, "master")

    # Partitions: what a repartition would do.
    press(page, "Next: partitions")
    shown(page).get_by_role("button", name="Count rows and labels").click()
    shown(page).get_by_text("not counted yet").wait_for(state="detached")
    shown(page).get_by_label("Strategy").select_option("approximate_balanced")
    wait_for_summary(page, "partitions", "approximate balanced")
    photograph(page, "partitions")

    # Train; the page is loaded anew while the run goes on; then stop.
    press(page, "Next: train")
    shown(page).get_by_label("Epochs").fill("2000")
    photograph(page, "train")
    press(page, "Start")
    page.wait_for_curve()
    wait_for_summary(page, "train", "epoch")
    page.save()
    page.open()
    page.wait_for_curve()
    head.locator(".sparkwright-sparkline").wait_for()
    photograph(page, "training")
    assert page.page.locator(".sparkwright-bench .mod-primary:visible").count() == 0
    press(page, "Stop")
    wait_for_summary(page, "train", "stopped after")

    # Evaluate.
    press(page, "Next: evaluate")
    press(page, "Evaluate")
    name = page.in_kernel("print(bench.run.name)")
    wait_for_summary(page, "evaluate", f"1 evaluated; network: {name}", timeout_s=60)
    shown(page).locator("svg").first.wait_for()
    photograph(page, "evaluation")

    # Save, and load what was saved.
    press(page, "Next: models")
    press(page, "Save model")
    tick = shown(page).get_by_role("checkbox", name=re.compile("lenet"))
    tick.wait_for(timeout=60_000)
    tick.check()
    shown(page).get_by_role("button", name=re.compile(r"\bLoad$")).click()
    wait_for_summary(page, "evaluate", "network: .*lenet.keras", timeout_s=60)
    photograph(page, "models")

    # The experiment is what was chosen.
    chosen = "e.master.averaging_frequency, e.epochs, e.master.repartition_strategy"
    text = page.in_kernel(f"e = bench.experiment; print({chosen})")
    assert text == "10 2000 approximate_balanced"


def test_every_step_fits_the_page(open_bench):
    page = open_bench(width=420, height=900)
    shown(page).locator(".sparkwright-pictures img").first.wait_for()
    wait_for_summary(page, "network", "431,080 parameters")
    for width, theme in ((420, "Dark"), (720, "Light"), (1280, "Dark")):
        page.set_theme(f"JupyterLab {theme}")
        page.page.set_viewport_size({"width": width, "height": 900})
        for name in STEPS:
            open_step(page, name)
            photograph(page, f"{width}-{theme.lower()}-{name}")
            too_wide = page.page.evaluate(
                "() => [...document.querySelectorAll('.sparkwright-part')].filter("
                "(part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.className)"
            )
            assert too_wide == [], f"{name} is wider than the page of {width} pixels"
            scrolls = page.page.evaluate(
                "() => [...document.querySelectorAll('.sparkwright-bench .widget-box')].filter("
                "(box) => /auto|scroll/.test(getComputedStyle(box).overflowY)"
                " && box.scrollHeight > box.clientHeight).map((box) => box.className)"
            )
            assert scrolls == [], f"{name} has a scrollbar of its own"
    page.set_theme("JupyterLab Light")


def test_header_stays_in_view_and_a_shorter_step_starts_at_its_top(open_bench):
    page = open_bench(height=600)
    head = page.page.locator(".sparkwright-head")
    wait_for_summary(page, "network", "431,080 parameters")
    open_step(page, "master")
    bottom = shown(page).get_by_role("button", name="As YAML or JSON")
    bottom.scroll_into_view_if_needed()
    page.page.wait_for_function(
        "() => document.querySelector('.sparkwright-bench').getBoundingClientRect().top < -100"
    )
    top = page.page.locator(".jp-WindowedPanel-outer").first.bounding_box()["y"]
    assert abs(head.bounding_box()["y"] - top) < 2
    press(page, "Next: partitions")
    shown(page).locator(".sparkwright-section-title", has_text="Partitions").wait_for()
    page.page.wait_for_function(
        "(top) => document.querySelector('.sparkwright-bench').getBoundingClientRect().top >= top",
        arg=top - 2,
    )
    title = shown(page).locator(".sparkwright-section-title").bounding_box()["y"]
    assert title > head.bounding_box()["y"] + head.bounding_box()["height"]


def test_help_opens_by_keys_and_problems_have_buttons(open_bench, tmp_path):
    lines = [f"{n},{'' if n % 5 == 0 else n % 7},{'xy'[n % 2]}" for n in range(400)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["size,age,kind", *lines]))
    page = open_bench(height=900)
    shown(page).get_by_label("Format", exact=True).select_option(label="CSV (one example per line)")
    place = shown(page).get_by_label("Path or URL")
    place.fill(str(tmp_path / "missing.csv"))
    place.press("Enter")
    wait_for_summary(page, "data", "does not exist")
    wait_for_summary(page, "train", "does not exist")
    place.fill(str(path))
    place.press("Enter")
    skip = shown(page).get_by_role("button", name="Skip 80 rows")
    skip.wait_for()
    photograph(page, "problems")
    skip.click()
    skip.wait_for(state="detached")
    assert page.in_kernel("print(dict(bench.experiment.data.options))") == "{'missing': 'skip'}"
    open_step(page, "train")
    shown(page).locator("summary", has_text="Help: Epochs").focus()
    page.page.keyboard.press("Enter")
    shown(page).get_by_text("Passes over the data.").wait_for()
