"""What happens to the panel's run, page or kernel while it trains, and several runs at once."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

FAKE_RUN = Path(__file__).parents[1] / "widgets" / "fake_run.py"
CANVAS = ".sparkwright-chart > canvas"
THREADS = (
    "import threading\n"
    "print(sum(t.name.startswith('sparkwright-panel') for t in threading.enumerate()))"
)
# Without waiting for the new kernel.
RESTART = "void jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
# What the panel thinks of its kernel from now on.
WATCH_KERNEL = """() => {
  const panel = document.querySelector('.sparkwright-panel');
  window.kernels = [panel.dataset.kernel];
  new MutationObserver(() => {
    if (window.kernels.at(-1) !== panel.dataset.kernel) window.kernels.push(panel.dataset.kernel);
  }).observe(panel, { attributeFilter: ['data-kernel'] });
}"""
START = """
import time
import fake_run
from sparkwright_widgets.display import panel_for
run = fake_run.FakeRun({kind})
run.begin(epochs={epochs})
"""


@pytest.fixture
def open_cells(lab_of):
    """Open a notebook of these cells, beside the test double, and run all of them."""
    return partial(lab_of, files=[FAKE_RUN])


def wait_for_step(page, step):
    page.page.wait_for_function(
        f"(n) => document.querySelector('{CANVAS}')?.ariaValueMax >= n", arg=step
    )


def wait_for_words(page, words):
    """What the chart says to a screen reader."""
    page.page.wait_for_function(
        f"(words) => document.querySelector('{CANVAS}')?.ariaValueText?.includes(words)", arg=words
    )


def wait_for_curve(page, quantity):
    """The curve whose label says so."""
    page.page.wait_for_function(
        f"(words) => document.querySelector('{CANVAS}').ariaLabel.startsWith(words)",
        arg=f"Curve of the {quantity}",
    )


# As a hidden tab does: no frames, until it is looked at again. Those of the chart are counted:
# widgets are modules from blobs, while JupyterLab's own code is served.
HIDE = """() => {
  window.waiting = [];
  window.realFrame = window.requestAnimationFrame;
  window.requestAnimationFrame = (draw) =>
    window.waiting.push({draw, caller: new Error().stack.split("\\n")[2]});
}"""
SHOW = """() => {
  window.requestAnimationFrame = window.realFrame;
  const waiting = window.waiting.splice(0);
  for (const {draw} of waiting) draw(performance.now());
  return waiting.filter(({caller}) => caller.includes("blob:")).length;
}"""


def test_panel_handles_missing_points_hidden_tabs_and_kernel_restarts(open_cells):
    new_run = (
        "import fake_run\nfrom sparkwright_widgets.display import panel_for\n"
        "run = fake_run.FakeRun()"
    )
    page = open_cells(new_run, "panel_for(run)")
    wait_for_words(page, "no values yet")
    page.in_kernel("run.report(0, 1, 0.5)")
    wait_for_words(page, "worker 0 0.5000")
    page.in_kernel("run.report(0, 2, float('nan')); run.report(0, 3, float('inf'))")
    page.page.get_by_role("alert").filter(has_text="Worker 0 reported nan").wait_for()

    page.page.evaluate(HIDE)
    page.in_kernel(
        "import time\nfor step in range(4, 604):\n    run.report(0, step, 1 / step)\n"
        "    time.sleep(0.002)"
    )
    page.in_kernel("time.sleep(0.5)")  # the panel's next look
    assert page.page.evaluate(SHOW) == 1, "frames wait, however much has come"
    wait_for_step(page, 598)

    for _ in range(2):  # more views, no second writer
        page.run_cell(1)
        page.wait_idle()
    wait_for_step(page, 598)
    assert page.in_kernel(THREADS) == "1"

    page.restart_kernel()
    page.page.locator(CANVAS).wait_for()  # the last picture stays, and nothing is raised
    page.run_all()
    wait_for_words(page, "no values yet")
    page.in_kernel("run.report(1, 7, 0.25)")
    wait_for_words(page, "worker 1 0.2500")
    assert page.in_kernel(THREADS) == "1"


def test_every_run_shows_metrics_rate_and_update_ratio_with_healthy_range(open_cells):
    page = open_cells(START.format(kind="", epochs=20) + "display(panel_for(run))", height=1000)
    wait_for_step(page, 60)
    choice = page.page.get_by_role("combobox", name="What the curve shows")
    for width in (1280, 420):
        page.page.set_viewport_size({"width": width, "height": 1000})
        choice.select_option("accuracy")
        wait_for_words(page, "validation 0.")
        choice.focus()
        page.page.keyboard.press("ArrowDown")  # by the keyboard alone
        wait_for_curve(page, "learning")
        page.page.keyboard.press("ArrowDown")
        page.page.get_by_role("note").filter(has_text="about 0.001").wait_for()
        log_button = page.page.get_by_role("button", name="Log scale", pressed=True)
        log_button.wait_for()
        assert log_button.is_disabled()
        if width == 420:
            page.set_theme("JupyterLab Dark")  # while the run goes on
        before = int(page.page.locator(CANVAS).get_attribute("aria-valuemax"))
        wait_for_step(page, before + 25)
        page.page.locator(".sparkwright-panel").scroll_into_view_if_needed()
        page.screenshot(f"panel-update-ratio-{width}px")
        choice.select_option("accuracy")
        wait_for_curve(page, "accuracy")
        page.screenshot(f"panel-accuracy-{width}px")
    page.set_theme("JupyterLab Light")


COMPARE = """
from sparkwright_widgets import compare_runs
runs = [fake_run.FakeRun(title="averaging"), fake_run.FakeRun(title="sharing", sharing=True),
        fake_run.FakeRun(title="averaging, slowly")]
for number, other in enumerate(runs):
    other.begin(epochs=8, steps_per_s=300 / (number + 1))
compare_runs(runs)
"""


def test_three_runs_are_overlaid_while_they_train(open_cells):
    page = open_cells(f"import fake_run\n{COMPARE}")
    wait_for_words(page, "averaging, slowly 0.")
    wait_for_words(page, "sharing, validation ")
    page.page.get_by_role("note").filter(has_text="Dashed").wait_for()
    page.page.get_by_role("button", name="sharing", exact=True).click()
    page.page.get_by_role("button", name="sharing", exact=True, pressed=False).wait_for()
    choice = page.page.get_by_role("combobox", name="What the curve shows")
    choice.select_option("throughput (examples/s)")
    wait_for_curve(page, "throughput")
    choice.select_option("loss")
    page.page.locator(".sparkwright-panel summary", has_text="Settings that differ").click()
    for width, theme in ((1280, "Light"), (420, "Dark")):
        page.set_theme(f"JupyterLab {theme}")
        page.page.set_viewport_size({"width": width, "height": 900})
        # The chart follows on the next frame.
        page.page.wait_for_function(
            "() => [...document.querySelectorAll('.sparkwright-panel *')]"
            ".filter((node) => !node.closest('.sparkwright-scroll > *'))"
            ".every((node) => node.getBoundingClientRect().right <= innerWidth)"
        )
        page.page.locator(".sparkwright-panel").scroll_into_view_if_needed()
        page.screenshot(f"comparison-{width}px")
    page.set_theme("JupyterLab Light")


def test_kernel_restart_ends_the_panel_within_five_seconds(open_cells):
    page = open_cells(START.format(kind="", epochs=200) + "display(panel_for(run))")
    wait_for_step(page, 20)
    page.page.evaluate(RESTART)
    badge = page.page.locator(".sparkwright-badge", has_text="Kernel restarted; the run ended")
    badge.wait_for(timeout=5_000)
    button = page.page.get_by_role("button", name="Run ended")
    assert button.is_disabled()
    assert page.page.get_by_text("just now").count() == 0
    page.page.locator(".sparkwright-panel").scroll_into_view_if_needed()
    page.screenshot("panel-kernel-restarted")
    page.wait_idle()
    assert button.is_visible()  # still so when the new kernel is there


def test_suspended_kernel_is_shown_as_unresponsive_and_recovers(open_cells):
    page = open_cells(START.format(kind="", epochs=200) + "display(panel_for(run))")
    wait_for_step(page, 20)
    kernel = int(page.in_kernel("import os; print(os.getpid())"))
    badge = page.page.locator(".sparkwright-badge")
    os.kill(kernel, signal.SIGSTOP)
    try:
        badge.filter(has_text="No answer from the kernel").wait_for(timeout=8_000)
        assert page.page.get_by_role("button", name="Stop").is_disabled()
        page.screenshot("panel-kernel-silent")
    finally:
        os.kill(kernel, signal.SIGCONT)
    badge.filter(has_text="Training").wait_for()
    page.page.get_by_role("button", name="Stop", disabled=False).press("Enter")
    badge.filter(has_text="Stopped").wait_for()


def test_panel_reports_the_kernel_alive_during_a_blocking_cell(open_cells):
    page = open_cells(
        START.format(kind="", epochs=200) + "display(panel_for(run))", "time.sleep(7)"
    )
    wait_for_step(page, 20)
    page.page.evaluate(WATCH_KERNEL)
    page.wait_idle()
    assert page.page.evaluate("window.kernels") == ["alive"]


AWAIT = "import asyncio\nwhile not run.finished:\n    await asyncio.sleep(0.1)"


def test_panel_and_its_button_work_after_a_cell_is_interrupted(open_cells):
    page = open_cells(START.format(kind="", epochs=50) + f"display(panel_for(run))\n{AWAIT}")
    wait_for_step(page, 20)
    page.interrupt()
    page.page.locator(".jp-OutputArea-output", has_text="CancelledError").first.wait_for()
    wait_for_step(page, int(page.page.locator(CANVAS).get_attribute("aria-valuemax")) + 20)
    page.page.get_by_role("button", name="Stop").press("Enter")
    page.page.locator(".sparkwright-badge", has_text="Stopped").wait_for()
    assert page.in_kernel("print(run.stop_calls)") == "1"


@pytest.fixture
def older_kernel(jupyter_server, tmp_path_factory):
    """The name of a kernel that runs the last ipykernel 6; skips where pip cannot fetch it."""
    version = "6.31.0"
    name = f"ipykernel-{version.replace('.', '-')}"
    place = tmp_path_factory.mktemp(name)
    wanted = [f"ipykernel=={version}", "nest_asyncio"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place]
    done = subprocess.run(
        [*command, *wanted], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        pytest.skip(f"pip could not fetch ipykernel {version}: {done.stderr.strip()[-200:]}")
    folder = jupyter_server.kernels / name
    folder.mkdir(parents=True, exist_ok=True)
    launch = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": launch, "display_name": name, "language": "python"}
    (folder / "kernel.json").write_text(json.dumps({**spec, "env": {"PYTHONPATH": str(place)}}))
    return name, version


def test_older_kernel_shows_points_live_and_receives_stop(open_cells, older_kernel):
    name, version = older_kernel
    page = open_cells(START.format(kind="", epochs=50) + "display(panel_for(run))", kernel=name)
    assert page.in_kernel("import ipykernel; print(ipykernel.__version__)") == version
    wait_for_step(page, 20)
    page.page.get_by_role("combobox", name="What the curve shows").select_option("learning rate")
    page.page.get_by_role("button", name="Stop").press("Enter")
    page.page.locator(".sparkwright-badge", has_text="Stopped").wait_for()
    assert page.in_kernel("print(run.stop_calls)") == "1"
