import shutil
from urllib.parse import urlparse

import pytest
from tests.browser.conftest import FAKE_RUN, SCREENSHOTS, free_port, started

pytest.importorskip("marimo", reason="marimo is not installed")

CANVAS = ".sparkwright-chart > canvas"

NOTEBOOK = """
import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import fake_run
    import marimo as mo

    from sparkwright_widgets import LivePanel, compare_runs

    run = fake_run.FakeRun(workers=4)
    panel = mo.ui.anywidget(LivePanel(run))
    other = fake_run.FakeRun(title="a second run")
    comparison = mo.ui.anywidget(compare_runs([run, other]))
    run.begin(epochs=200)
    other.begin(epochs=2, rounds=10)
    return comparison, panel


@app.cell
def _(panel):
    panel
    return


@app.cell
def _(comparison):
    comparison
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.fixture
def marimo_server(tmp_path):
    """The address of a marimo server that runs the notebook; its settings are its own."""
    shutil.copy(FAKE_RUN, tmp_path)
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    port = free_port()
    command = [
        *("marimo", "run", "notebook.py", "--headless"),
        *("--no-token", "--no-check", "--host", "127.0.0.1", "--port", str(port)),
    ]
    homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), ".")
    url = f"http://127.0.0.1:{port}"
    with started(command, f"{url}/health", folder=tmp_path, environment=homes):
        yield url


@pytest.fixture
def page(marimo_server, contexts):
    """The notebook in Chromium, where every address but the server's own is refused."""
    page = contexts(1.0).new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    host = urlparse(marimo_server).netloc
    page.route(
        "**/*",
        lambda route: (
            route.continue_() if urlparse(route.request.url).netloc == host else route.abort()
        ),
    )
    page.set_default_timeout(30_000)
    page.goto(marimo_server)
    yield page
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "panel-marimo.png")
    page.close()
    assert errors == [], "JavaScript raised errors"


def test_marimo_shows_the_curve_live_and_stops_the_run(page):
    panel = page.locator(".sparkwright-panel").first
    panel.locator(".sparkwright-badge", has_text="Training").wait_for()
    canvas = panel.locator(CANVAS)
    # Keys move along a curve, so before the first minibatches they do nothing.
    panel.locator(f'{CANVAS}[aria-valuemax]:not([aria-valuemax="0"])').wait_for()
    canvas.focus()  # the values are read by keyboard
    seen = 0
    while seen < 200:  # steps; the page's time-out ends a test that waits for ever
        page.keyboard.press("End")
        panel.locator(".sparkwright-readout", has_text="mean of the round").wait_for()
        seen = int(canvas.get_attribute("aria-valuemax"))
    panel.get_by_role("button", name="Each worker").click()
    panel.get_by_role("button", name="worker 3").wait_for()
    panel.get_by_role("button", name="Stop").press("Enter")
    panel.locator(".sparkwright-badge", has_text="Stopped").wait_for()
    panel.get_by_role("button", name="Run ended").wait_for()
    comparison = page.locator(".sparkwright-panel").nth(1)
    comparison.get_by_role("rowheader", name="a second run").wait_for()
    comparison.get_by_role("button", name="a second run", exact=True).wait_for()
