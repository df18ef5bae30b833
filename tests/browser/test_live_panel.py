import pytest
from tests.waiting import wait_until

CANVAS = ".sparkwright-chart > canvas"
AWAIT = "import asyncio\nwhile not run.finished:\n    await asyncio.sleep(0.1)"
PANEL_THREADS = (
    "import threading\n"
    "print(sum(t.name.startswith('sparkwright-panel') for t in threading.enumerate()))"
)


def wait_for_state(page, word):
    page.page.locator(".sparkwright-panel .sparkwright-badge", has_text=word).first.wait_for()


def wait_for_card(page):
    """The last thing that a run displays; the panel has then been refreshed as well."""
    page.page.locator(".sparkwright-card summary").wait_for()


def steps_shown(page):
    """The number of steps that the chart's cursor can reach."""
    return int(page.page.locator(CANVAS).first.get_attribute("aria-valuemax") or 0)


def wait_for_step(page, step):
    """Wait until the chart of every view has come so far."""
    page.page.wait_for_function(
        "([chart, n]) => { const found = [...document.querySelectorAll(chart)];"
        " return found.length && found.every((each) => each.ariaValueMax >= n); }",
        arg=[CANVAS, step],
    )


def wait_for_words(page, words):
    """What the chart says to a screen reader."""
    page.page.wait_for_function(
        f"(words) => document.querySelector('{CANVAS}')?.ariaValueText?.includes(words)", arg=words
    )


def wait_for_curve_of(page, quantity):
    page.page.wait_for_function(
        f"(words) => document.querySelector('{CANVAS}').ariaLabel?.startsWith(words)",
        arg=f"Curve of the {quantity}",
    )


def readout(page, words):
    return page.page.locator(".sparkwright-readout", has_text=words)


WHITE = """() => {
  const canvas = document.querySelector('.sparkwright-chart > canvas');
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let white = 0;
  for (let i = 0; i < data.length; i += 4)
    white += data[i] > 220 && data[i + 2] > 220 && data[i + 3] > 200;
  return white > 200;
}"""


def test_curve_is_drawn_and_the_run_ends_with_a_card(open_run):
    page = open_run("epochs=3, rounds=10", "panel = panel_for(run).panel")
    wait_for_state(page, "Training")
    page.wait_for_curve()
    wait_for_state(page, "Done")
    wait_for_card(page)
    assert page.page.locator(".sparkwright-panel").count() == 1
    assert steps_shown(page) == 148  # the middle of the last round of five
    # The page's request for the curve does not affect later messages.
    assert page.in_kernel("print(hasattr(panel.comm, '_reply_subshell_id'))") == "False"
    page.show_at("panel-done", 1280, "Dark")
    page.page.wait_for_function(WHITE)
    page.save()
    saved = (page.folder / "cells.ipynb").read_text()
    assert "Loss curve of 2 workers over 150 steps" in saved  # the panel's static copy
    page.shut_down_kernels()
    page.open()
    wait_for_card(page)
    page.page.locator(".sparkwright-card svg").nth(1).wait_for()


def test_every_view_of_a_run_shows_its_whole_curve_and_stops_it(open_run):
    page = open_run("epochs=200", AWAIT)
    wait_for_step(page, 20)
    page.interrupt()
    page.page.locator(".jp-OutputArea-output", has_text="CancelledError").first.wait_for()
    wait_for_step(page, steps_shown(page) + 20)

    page.save()
    page.open()
    page.wait_for_curve()
    canvas = page.page.locator(CANVAS).first
    canvas.press("Home")
    readout(page, "Step 3: workers ").wait_for()
    wait_for_step(page, steps_shown(page) + 20)

    page.page.evaluate("jupyterapp.commands.execute('notebook:clear-cell-output')")
    page.page.locator(".sparkwright-panel").wait_for(state="detached")
    missed = int(page.in_kernel("print(len(run.log))")) + 100  # messages arrive for nobody
    wait_until(lambda: int(page.in_kernel("print(len(run.log))")) > missed)
    page.replace_cell("panel_for(run)")
    page.wait_for_curve()
    canvas.press("Home")
    readout(page, "Step 3: workers ").wait_for()

    page.page.evaluate("jupyterapp.commands.execute('notebook:create-output-view')")
    page.page.locator(".sparkwright-panel").nth(1).wait_for()
    wait_for_step(page, steps_shown(page) + 20)
    assert page.in_kernel(PANEL_THREADS) == "1"
    page.page.get_by_role("button", name="Stop").first.press("Enter")
    wait_for_state(page, "Stopped")
    page.page.get_by_role("button", name="Run ended").nth(1).wait_for()
    assert page.in_kernel("print(run.stop_calls)") == "1"


def test_failed_run_shows_a_collapsed_traceback_and_fits(open_run):
    page = open_run("epochs=2, rounds=10, bad_step=60, ends='failed'")
    alert = page.page.get_by_role("alert").filter(has_text="Training failed.")
    alert.wait_for()
    wait_for_card(page)  # the run's end draws the panel once more, with the traceback folded
    page.page.get_by_text("the loss is not finite").wait_for()
    assert "Worker 1 failed in layer 'dense_1'" in alert.inner_text()
    assert "ValueError" not in alert.inner_text()
    alert.locator("summary").click()
    alert.get_by_text("ValueError").first.wait_for()
    assert "\x1b" not in alert.inner_text()
    page.show_at("panel-failed", 1280, "Light")
    page.show_at("panel-failed", 420, "Dark")


def test_chart_is_read_smoothed_and_zoomed_by_pointer_and_keys(open_run):
    page = open_run("epochs=60, rounds=4, steps_per_s=600", kind="workers=4", scale=2.0)
    wait_for_card(page)
    steps = steps_shown(page)
    canvas = page.page.locator(CANVAS)
    axis = page.page.get_by_role("combobox", name="Horizontal axis")
    show_all = page.page.get_by_role("button", name="Show all")
    page.page.get_by_role("button", name="Log scale").click()
    page.page.get_by_role("button", name="Log scale", pressed=True).wait_for()
    canvas.hover(position={"x": 500, "y": 60})
    readout(page, "mean of the round 0.").wait_for()

    page.page.get_by_role("slider", name="Smoothing").fill("0.9")
    axis.select_option("by epoch")
    page.page.get_by_role("button", name="Each worker").click()
    wait_for_words(page, " epochs, smoothed: worker 0")
    page.page.get_by_role("button", name="worker 1").click()
    page.page.get_by_role("button", name="worker 1", pressed=False).wait_for()
    page.show_at("panel-60-epochs", 420, "Dark")
    page.show_at("panel-60-epochs", 1280, "Light")
    canvas.hover(position={"x": 300, "y": 60})
    readout(page, "worker 0").wait_for()
    assert "worker 1" not in readout(page, "worker 0").inner_text()

    axis.select_option("by step")
    box = canvas.bounding_box()
    for way_back in (canvas.dblclick, lambda: canvas.press("Escape")):
        page.page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.page.mouse.down()
        page.page.mouse.move(box["x"] + 500, box["y"] + 100, steps=4)
        page.page.mouse.up()
        show_all.wait_for()
        canvas.hover(position={"x": 60, "y": 100})
        readout(page, "Step").wait_for()
        assert 0.05 * steps < int(canvas.get_attribute("aria-valuenow")) < 0.4 * steps
        way_back()
        show_all.wait_for(state="hidden")
    for key, state in (("End", "hidden"), ("+", "visible"), ("-", "hidden")):
        canvas.press(key)
        show_all.wait_for(state=state)
    axis.select_option("by time")
    wait_for_words(page, "after ")


def test_every_quantity_of_a_run_is_selected_by_keys(open_run):
    page = open_run("epochs=50, rounds=40", kind="sharing=True", height=1000)
    wait_for_state(page, "Training")
    page.in_kernel("run.lose(1)")
    page.page.get_by_role("status").filter(
        has_text="Worker 1 is lost. Waiting for a replacement"
    ).wait_for()
    page.page.get_by_role("cell", name="lost", exact=True).wait_for()
    choice = page.page.get_by_role("combobox", name="What the curve shows")
    page.page.get_by_role("button", name="Each worker").click()
    for width, theme in ((1280, "Light"), (420, "Dark")):
        page.show_at("panel-sharing", width, theme)
        choice.select_option("sent for a minibatch (KiB)")
        wait_for_curve_of(page, "sent for a minibatch (KiB).")
        choice.press("ArrowUp")
        wait_for_curve_of(page, "sparsity (%).")
        wait_for_words(page, "worker 1 ")
        page.wait_for_curve()
    choice.select_option("accuracy")
    wait_for_words(page, "validation 0.")
    choice.press("ArrowDown")
    wait_for_curve_of(page, "learning")
    choice.press("ArrowDown")
    page.page.get_by_role("note").filter(has_text="about 0.001").wait_for()
    log_button = page.page.get_by_role("button", name="Log scale", pressed=True)
    log_button.wait_for()
    assert log_button.is_disabled()
    wait_for_step(page, steps_shown(page) + 25)


APPEND = """
import numpy, time
def append(first, last, at_a_time=1):
    for start in range(first, last, at_a_time):
        step = numpy.repeat(numpy.arange(start, start + at_a_time), 2)
        rows = {"worker": numpy.tile([0, 1], at_a_time), "epoch": numpy.ones(len(step), int),
                "round": step // 5, "step": step, "loss": numpy.random.random(len(step)),
                "examples": numpy.full(len(step), 32)}
        panel.update(lambda feed: feed.add_rows(rows))
        time.sleep(0.001)
"""


@pytest.mark.slow
def test_appends_do_not_grow_browser_memory(open_run):
    page = open_run("epochs=1, rounds=1", last_line="panel = panel_for(run).panel")
    wait_for_card(page)
    page.in_kernel(APPEND)

    def heap_mib_after(first, last, at_a_time=1):
        page.in_kernel(f"append({first}, {last}, {at_a_time})")
        wait_for_step(page, last - 10)  # the mean ends with the last complete round
        page.page.evaluate("gc()")
        return page.page.evaluate("performance.memory.usedJSHeapSize") / 2**20

    heap_mib_after(100, 9_000, at_a_time=100)  # the lines have reached their limit
    warm_mib = heap_mib_after(9_000, 9_500)
    assert heap_mib_after(9_500, 13_500) - warm_mib < 3  # less than a KiB a message
