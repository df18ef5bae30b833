"""The panel in a real browser, fed by the test double: drawing, Stop, reload, narrow and dark."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

FAKE_RUN = Path(__file__).parents[1] / "widgets" / "fake_run.py"


@pytest.fixture
def open_run(lab_of):
    """Open a notebook whose first cell displays a fake run, begun with the given arguments."""

    def open_run(arguments="", last_line="", kind="", **options):
        return lab_of(
            "import fake_run\nfrom sparkwright_widgets.display import panel_for\n"
            f"run = fake_run.FakeRun({kind})\ndisplay(panel_for(run))\n"
            f"run.begin({arguments})\n{last_line}",
            files=[FAKE_RUN],
            **options,
        )

    return open_run


def wait_for_state(page, word):
    page.page.locator(".sparkwright-panel .sparkwright-badge", has_text=word).wait_for()


def wait_for_card(page):
    """The last thing that a run displays; the panel has then been refreshed as well."""
    page.page.locator(".sparkwright-card summary").wait_for()


def steps_shown(page):
    """The number of steps that the chart's cursor can reach."""
    return int(page.page.locator(".sparkwright-chart > canvas").get_attribute("aria-valuemax"))


def test_curve_is_drawn_and_the_run_ends_with_a_card(open_run):
    page = open_run("epochs=3, rounds=10")
    wait_for_state(page, "Training")
    page.wait_for_curve()
    page.screenshot("panel-training")
    wait_for_state(page, "Done")
    wait_for_card(page)
    assert page.page.locator(".sparkwright-panel").count() == 1
    assert steps_shown(page) == 148  # the middle of the last round of five
    page.screenshot("panel-done")


AWAIT = "import asyncio\nwhile not run.finished:\n    await asyncio.sleep(0.1)"


@pytest.mark.parametrize("last_line", ["", AWAIT], ids=["idle", "awaiting"])
def test_stop_reaches_the_run_and_the_panel_shows_it(open_run, last_line):
    page = open_run("epochs=50", last_line)
    wait_for_state(page, "Training")
    button = page.page.get_by_role("button", name="Stop")
    button.focus()
    page.page.keyboard.press("Enter")
    wait_for_state(page, "Stopped")
    page.page.get_by_role("button", name="Run ended").wait_for()
    assert page.in_kernel("print(run.stop_calls)") == "1"


def test_a_saved_notebook_shows_the_result_without_its_kernel(open_run):
    page = open_run("epochs=2, rounds=10")
    wait_for_card(page)
    page.save()
    saved = (page.folder / "cells.ipynb").read_text()
    assert "Loss curve of 2 workers over 100 steps" in saved  # the panel's static copy
    page.shut_down_kernels()
    page.open()
    wait_for_card(page)
    page.page.locator(".sparkwright-card svg").nth(1).wait_for()
    page.screenshot("panel-reopened-without-kernel")


def test_chart_is_complete_after_its_view_is_reopened(open_run):
    page = open_run("epochs=20")
    wait_for_state(page, "Training")
    page.page.evaluate("jupyterapp.commands.execute('notebook:clear-cell-output')")
    page.page.locator(".sparkwright-panel").wait_for(state="detached")
    page.page.wait_for_timeout(1000)  # messages arrive meanwhile, for nobody
    page.page.evaluate(
        "async () => { const { content } = jupyterapp.shell.currentWidget;"
        " content.activeCell.model.sharedModel.setSource('panel_for(run)'); }"
    )
    page.run_cell(0)
    page.wait_for_curve()
    page.page.locator(".sparkwright-chart > canvas").focus()
    page.page.keyboard.press("Home")
    page.page.locator(".sparkwright-readout", has_text="Step 3: workers ").wait_for()


def test_reload_during_a_run_shows_the_whole_curve_and_continues(open_run):
    page = open_run("epochs=20")
    page.wait_for_curve()
    page.save()
    page.open()
    page.page.locator(".sparkwright-chart > canvas").wait_for()
    page.wait_for_curve()
    before = steps_shown(page)
    assert before > 10
    canvas = page.page.locator(".sparkwright-chart > canvas")
    canvas.focus()
    page.page.keyboard.press("Home")
    readout = page.page.locator(".sparkwright-readout")
    readout.filter(has_text="Step 3: workers ").wait_for()
    page.page.wait_for_function(
        "(n) => +document.querySelector('.sparkwright-chart > canvas').ariaValueMax > n", arg=before
    )


def test_request_of_one_page_does_not_affect_messages_of_the_next(open_run):
    page = open_run("epochs=2, rounds=10", "panel = panel_for(run).panel")
    wait_for_card(page)  # the page has asked for the curve, and was answered
    assert page.in_kernel("print(hasattr(panel.comm, '_reply_subshell_id'))") == "False"


def test_values_can_be_read_by_pointer_and_the_loss_axis_can_be_logarithmic(open_run):
    page = open_run("epochs=3, rounds=20")
    wait_for_card(page)
    page.page.get_by_role("button", name="Log scale").click()
    pressed = page.page.get_by_role("button", name="Log scale", pressed=True)
    pressed.wait_for()
    canvas = page.page.locator(".sparkwright-chart > canvas")
    canvas.hover(position={"x": 500, "y": 60})
    page.page.locator(".sparkwright-readout", has_text="mean of the round 0.").wait_for()
    page.screenshot("panel-log-scale")
    page.page.get_by_role("button", name="Each worker").click()
    page.page.get_by_role("button", name="worker 1").click()
    page.page.get_by_role("button", name="worker 1", pressed=False).wait_for()
    canvas.hover(position={"x": 300, "y": 60})
    readout = page.page.locator(".sparkwright-readout", has_text="worker 0")
    readout.wait_for()
    assert "worker 1" not in readout.inner_text()


def test_two_views_share_one_panel_and_one_thread(open_run):
    page = open_run("epochs=20")
    wait_for_state(page, "Training")
    page.in_kernel("import threading")
    page.page.evaluate("jupyterapp.commands.execute('notebook:create-output-view')")
    page.page.locator(".sparkwright-panel").nth(1).wait_for()
    page.page.wait_for_function(
        "() => [...document.querySelectorAll('.sparkwright-chart > canvas')]"
        ".every((canvas) => canvas.ariaValueMax > 20)"
    )
    count = "print(sum(t.name.startswith('sparkwright-panel') for t in threading.enumerate()))"
    assert page.in_kernel(count) == "1"


def test_panel_fits_the_page_width(open_run):
    page = open_run("epochs=2, rounds=10, bad_step=60", scale=2.0)
    wait_for_card(page)
    page.page.get_by_text("the loss is not finite").wait_for()
    for width in (1280, 420):
        page.page.set_viewport_size({"width": width, "height": 900})
        page.wait_until_it_fits()
        page.page.locator(".sparkwright-panel").scroll_into_view_if_needed()
        page.screenshot(f"panel-{width}px")


def test_chart_follows_theme_changes(open_run):
    page = open_run("epochs=3, rounds=10")
    wait_for_card(page)
    page.set_theme("JupyterLab Dark")
    page.page.wait_for_function(
        """() => {
          const canvas = document.querySelector('.sparkwright-chart > canvas');
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          let white = 0;
          for (let i = 0; i < data.length; i += 4)
            white += data[i] > 220 && data[i + 2] > 220 && data[i + 3] > 200;
          return white > 200;
        }"""
    )
    page.screenshot("panel-dark")
    page.set_theme("JupyterLab Light")


def test_failed_run_shows_its_message_and_a_collapsed_traceback(open_run):
    page = open_run("epochs=1, rounds=5, ends='failed'")
    alert = page.page.get_by_role("alert").filter(has_text="Training failed.")
    alert.wait_for()
    wait_for_card(page)  # the run's end draws the panel once more, with the traceback folded
    assert "Worker 1 failed in layer 'dense_1'" in alert.inner_text()
    assert "ValueError" not in alert.inner_text()
    alert.locator("summary").click()
    alert.get_by_text("ValueError").first.wait_for()
    assert "\x1b" not in alert.inner_text()
    page.screenshot("panel-failed")


def test_chart_of_sixty_epochs_supports_zoom_smoothing_and_axis_choice(open_run):
    page = open_run("epochs=60, rounds=4, steps_per_s=600", kind="workers=4", scale=2.0)
    wait_for_card(page)
    steps = steps_shown(page)
    canvas = page.page.locator(".sparkwright-chart > canvas")
    axis = page.page.get_by_role("combobox", name="Horizontal axis")
    slider = page.page.get_by_role("slider", name="Smoothing")
    for theme in ("Light", "Dark"):
        page.set_theme(f"JupyterLab {theme}")
        for width in (1280, 420):
            page.page.set_viewport_size({"width": width, "height": 900})
            page.wait_until_it_fits()
            page.page.locator(".sparkwright-panel").scroll_into_view_if_needed()
            page.screenshot(f"panel-60-epochs-{width}px-{theme.lower()}")
            slider.fill("0.9")
            axis.select_option("by epoch")
            page.page.get_by_role("button", name="Each worker").click()
            page.page.wait_for_function(
                "() => document.querySelector('.sparkwright-chart > canvas')"
                ".ariaValueText.includes(' epochs, smoothed: worker 0')"
            )
            page.screenshot(f"panel-60-epochs-smoothed-{width}px-{theme.lower()}")
            slider.fill("0")
            axis.select_option("by step")
            page.page.get_by_role("button", name="Each worker").click()
    page.page.set_viewport_size({"width": 1280, "height": 900})
    # By dragging; a double click shows all again, as Escape does.
    box = canvas.bounding_box()
    for way_back in (canvas.dblclick, lambda: canvas.press("Escape")):
        page.page.mouse.move(box["x"] + 200, box["y"] + 100)
        page.page.mouse.down()
        page.page.mouse.move(box["x"] + 500, box["y"] + 100, steps=4)
        page.page.mouse.up()
        page.page.get_by_role("button", name="Show all").wait_for()
        page.screenshot("panel-zoomed")
        canvas.hover(position={"x": 60, "y": 100})
        page.page.locator(".sparkwright-readout", has_text="Step").wait_for()
        left = int(canvas.get_attribute("aria-valuenow"))
        assert 0.05 * steps < left < 0.4 * steps
        way_back()
        page.page.get_by_role("button", name="Show all").wait_for(state="hidden")
    # By the keyboard alone.
    canvas.press("End")
    canvas.press("+")
    page.page.get_by_role("button", name="Show all").wait_for()
    canvas.press("-")
    page.page.get_by_role("button", name="Show all").wait_for(state="hidden")
    axis.select_option("by time")
    page.page.wait_for_function(
        "() => document.querySelector('.sparkwright-chart > canvas')"
        ".ariaValueText.includes('after ')"
    )
    page.screenshot("panel-by-time")
    page.set_theme("JupyterLab Light")


SEE = """(words) => {
  const canvas = document.querySelector('.sparkwright-chart > canvas');
  return canvas.ariaLabel?.startsWith(words) && canvas.ariaValueText?.includes('worker 1 ');
}"""


def test_a_run_that_shares_gradients_shows_its_messages(open_run):
    page = open_run("epochs=20, rounds=100", kind="sharing=True")
    wait_for_state(page, "Training")
    page.in_kernel("run.lose(1)")
    page.page.get_by_role("status").filter(
        has_text="Worker 1 is lost. Waiting for a replacement"
    ).wait_for()
    page.page.get_by_role("cell", name="lost", exact=True).wait_for()
    choice = page.page.get_by_role("combobox", name="What the curve shows")
    page.page.get_by_role("button", name="Each worker").click()
    for theme, width in (("Light", 1280), ("Light", 420), ("Dark", 420), ("Dark", 1280)):
        page.set_theme(f"JupyterLab {theme}")
        page.page.set_viewport_size({"width": width, "height": 900})
        for name in (
            "residual, 99th percentile",
            "staleness (minibatches)",
            "sent for a minibatch (KiB)",
        ):
            choice.select_option(name)
            page.page.wait_for_function(SEE, arg=f"Curve of the {name}.")
        choice.focus()
        page.page.keyboard.press("ArrowUp")  # by the keyboard alone
        page.page.wait_for_function(SEE, arg="Curve of the sparsity (%).")
        page.wait_for_curve()
        page.page.locator(".sparkwright-panel").scroll_into_view_if_needed()
        page.screenshot(f"panel-sharing-{width}px-{theme.lower()}")
    page.set_theme("JupyterLab Light")


APPEND = """
import numpy, threading, time
def append(first, last):
    for step in range(first, last):
        step = numpy.array([step, step])
        rows = {"worker": numpy.array([0, 1]), "epoch": numpy.array([1, 1]), "round": step // 5,
                "step": step, "loss": numpy.random.random(2), "examples": numpy.array([32, 32])}
        panel.update(lambda feed: feed.add_rows(rows))
        time.sleep(0.001)
"""


@pytest.mark.slow
def test_ten_thousand_appends_do_not_grow_browser_memory(open_run):
    page = open_run("epochs=1, rounds=1", last_line="panel = panel_for(run).panel")
    wait_for_card(page)
    page.in_kernel(APPEND)

    def heap_after(first, last):
        page.in_kernel(f"append({first}, {last})")
        page.page.wait_for_function(
            "(n) => +document.querySelector('.sparkwright-chart > canvas').ariaValueMax >= n",
            arg=last - 10,  # the mean ends with the last complete round
        )
        page.page.evaluate("gc()")
        return page.page.evaluate("performance.memory.usedJSHeapSize") / 2**20

    warm = heap_after(100, 9_000)  # the lines have reached their limit
    growth_mib = heap_after(9_000, 19_000) - warm
    assert growth_mib < 8
