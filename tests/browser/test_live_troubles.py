import json
import os
import signal
import subprocess
import sys

import pytest
from tests.browser.conftest import FAKE_RUN
from tests.browser.test_live_panel import (
    CANVAS,
    PANEL_THREADS,
    wait_for_curve_of,
    wait_for_step,
    wait_for_words,
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


def test_panel_handles_missing_points_hidden_tabs_and_kernel_restarts(lab_of):
    new_run = (
        "import fake_run\nfrom sparkwright_widgets.display import panel_for\n"
        "run = fake_run.FakeRun()"
    )
    page = lab_of(new_run, "panel_for(run)", files=[FAKE_RUN])
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
    assert page.in_kernel(PANEL_THREADS) == "1"

    page.restart_kernel()
    page.page.locator(CANVAS).wait_for()  # the last picture stays, and nothing is raised
    page.run_all()
    wait_for_words(page, "no values yet")
    page.in_kernel("run.report(1, 7, 0.25)")
    wait_for_words(page, "worker 1 0.2500")


COMPARE = """
import fake_run
from sparkwright_widgets import compare_runs
runs = [fake_run.FakeRun(title="averaging"), fake_run.FakeRun(title="sharing", sharing=True),
        fake_run.FakeRun(title="averaging, slowly")]
for number, other in enumerate(runs):
    other.begin(epochs=8, steps_per_s=300 / (number + 1))
compare_runs(runs)
"""


def test_three_runs_are_overlaid_while_they_train(lab_of):
    page = lab_of(COMPARE, files=[FAKE_RUN])
    wait_for_words(page, "averaging, slowly 0.")
    wait_for_words(page, "sharing, validation ")
    page.page.get_by_role("note").filter(has_text="Dashed").wait_for()
    page.page.get_by_role("button", name="sharing", exact=True).click()
    page.page.get_by_role("button", name="sharing", exact=True, pressed=False).wait_for()
    choice = page.page.get_by_role("combobox", name="What the curve shows")
    choice.select_option("throughput (examples/s)")
    wait_for_curve_of(page, "throughput")
    page.page.locator(".sparkwright-panel summary", has_text="Settings that differ").click()
    page.show_at("comparison", 1280, "Light")
    page.show_at("comparison", 420, "Dark")


# What the panel thinks of its kernel from now on.
WATCH_KERNEL = """() => {
  const panel = document.querySelector('.sparkwright-panel');
  window.kernels = [panel.dataset.kernel];
  new MutationObserver(() => {
    if (window.kernels.at(-1) !== panel.dataset.kernel) window.kernels.push(panel.dataset.kernel);
  }).observe(panel, { attributeFilter: ['data-kernel'] });
}"""
# Without waiting for the new kernel.
RESTART = "void jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


def test_panel_tells_a_blocked_kernel_from_a_suspended_and_a_restarted_one(open_run):
    page = open_run("epochs=1000", "import os, time\nblocks = lambda: time.sleep(7)")
    wait_for_step(page, 20)
    page.page.evaluate(WATCH_KERNEL)
    page.in_kernel("blocks()")
    assert page.page.evaluate("window.kernels") == ["alive"]

    kernel = int(page.in_kernel("print(os.getpid())"))
    badge = page.page.locator(".sparkwright-badge")
    os.kill(kernel, signal.SIGSTOP)
    try:
        badge.filter(has_text="No answer from the kernel").wait_for(timeout=8_000)
        assert page.page.get_by_role("button", name="Stop").is_disabled()
    finally:
        os.kill(kernel, signal.SIGCONT)
    badge.filter(has_text="Training").wait_for()
    page.page.get_by_role("button", name="Stop", disabled=False).wait_for()

    page.page.evaluate(RESTART)
    badge.filter(has_text="Kernel restarted; the run ended").wait_for(timeout=5_000)
    button = page.page.get_by_role("button", name="Run ended")
    assert button.is_disabled()
    assert page.page.get_by_text("just now").count() == 0
    page.wait_idle()
    assert button.is_visible()  # still so when the new kernel is there


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


def test_older_kernel_shows_points_live_and_receives_stop(open_run, older_kernel):
    name, version = older_kernel
    page = open_run("epochs=50", kernel=name)
    assert page.in_kernel("import ipykernel; print(ipykernel.__version__)") == version
    wait_for_step(page, 20)
    page.page.get_by_role("combobox", name="What the curve shows").select_option("learning rate")
    page.page.get_by_role("button", name="Stop").press("Enter")
    page.page.locator(".sparkwright-badge", has_text="Stopped").wait_for()
    assert page.in_kernel("print(run.stop_calls)") == "1"
