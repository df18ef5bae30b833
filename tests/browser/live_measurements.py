"""Measures the live panel in a real browser; `ONLY=live` of the benchmarks runs this file.

Not collected by itself: it asserts nothing, and takes about a minute.
"""

import json
import os
from pathlib import Path

import psutil
import pytest
from tests.browser.conftest import FAKE_RUN

pytestmark = pytest.mark.browser

UPDATES, WARM = 10_000, 500
STEADY_S = 20

RUN = """
import os, threading, time
import numpy, fake_run
from sparkwright.runs._history import History
from sparkwright_widgets.display import panel_for

run = fake_run.FakeRun()
run.log = History()

def rows(first, count):
    '''Of both workers, `count` minibatches each, as a run logs them.'''
    steps = numpy.tile(numpy.arange(first, first + count), 2)
    workers = numpy.repeat([0, 1], count)
    return {"worker": workers, "epoch": 1 + steps // 5000, "round": steps // 5, "step": steps,
            "loss": numpy.random.random(2 * count), "examples": numpy.full(2 * count, 32),
            "time_s": steps / 200, "examples_per_s": numpy.full(2 * count, 6400.0),
            "learning_rate": numpy.where(steps % 5, numpy.nan, 1e-3),
            "update_ratio": numpy.where(steps % 200, numpy.nan, 2e-3)}

def update(first, last):
    '''One message to the browser for each step, as fast as it goes.'''
    for step in range(first, last):
        new = rows(step, 1)
        panel.update(lambda feed: feed.add_rows(new))
        time.sleep(0.001)

def steadily(seconds):
    '''The panel's own thread at work: 400 rows a second, told ten times a second.'''
    began = time.process_time(), time.perf_counter()
    for tick in range(10 * seconds):
        run.log.append(rows(20 * tick + 1, 20))
        time.sleep(0.1)
    print((time.process_time() - began[0]) / (time.perf_counter() - began[1]))

shown = panel_for(run)
panel = shown.panel
display(shown)
"""


def test_live(lab_of):
    page = lab_of(RUN, files=[FAKE_RUN])
    page.page.locator(".sparkwright-chart > canvas").wait_for()
    page.wait_idle()
    cores = float(page.in_kernel(f"steadily({STEADY_S})"))
    first = 20 * 10 * STEADY_S + 1
    page.in_kernel(f"update({first}, {first + WARM})")
    before = sizes(page)
    page.in_kernel(f"update({first + WARM}, {first + WARM + UPDATES})")
    after = sizes(page)
    found = {"kernel_cores": cores, "updates": UPDATES, "before": before, "after": after}
    if out := os.environ.get("SPARKWRIGHT_LIVE_OUT"):
        Path(out).write_text(json.dumps(found))


def sizes(page):
    """MiB of the kernel and of the page's process, garbage collected."""
    page.page.wait_for_timeout(1000)  # the last messages are drawn
    page.page.evaluate("gc()")
    pid = int(page.in_kernel("import gc; gc.collect(); print(os.getpid())"))
    renderers = [
        process.memory_info().rss
        for process in psutil.Process().children(recursive=True)
        if "--type=renderer" in process.cmdline()
    ]
    return {
        "kernel": psutil.Process(pid).memory_info().rss / 2**20,
        "browser": max(renderers, default=0) / 2**20,
    }
