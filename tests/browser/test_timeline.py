"""A timeline's page in a real browser: nothing is fetched, and it is used by mouse and keys."""

import re
from pathlib import Path

import numpy as np
import pytest

from sparkwright.timeline import PhaseCode, SpanStore

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).parents[2] / "reports" / "screenshots"
LOOP = np.array([6, 7, 10, 11], np.uint8)


def timeline_of(*, workers, rounds, exact_limit=500_000):
    store, rng = SpanStore(workers=workers, exact_limit=exact_limit), np.random.default_rng(0)
    end_s = 0.0
    for worker in range(workers):
        start = np.array([PhaseCode.TENSORFLOW, PhaseCode.BUILD], np.uint8)
        store.append(worker, start, np.array([1.0, 9.0]), np.array([8.0, 1.0], np.float32))
        seconds = rng.gamma(4.0, [0.02, 0.1, 0.03, 0.01], (rounds, 4))
        seconds[:, 1] *= 1.4 if worker == 2 else 1.0
        ends_s = 10.0 + np.cumsum(seconds.ravel())
        lengths = seconds.ravel().astype(np.float32)
        store.append(worker, np.tile(LOOP, rounds), ends_s - lengths, lengths)
        end_s = max(end_s, float(ends_s[-1]))
    driver = np.array([PhaseCode.GATHER, PhaseCode.TRAIN], np.uint8)
    lengths = np.array([10.0, end_s - 10.0], np.float32)
    store.append(-1, driver, np.array([0.0, 10.0]), lengths)
    return store.timeline(name="demo", hosts=[f"host{w // 4}" for w in range(workers)])


@pytest.fixture
def open_timeline(chromium, tmp_path):
    """Opens a timeline's page; fails the test if anything was fetched, or a script failed."""
    contexts, troubles = [], []

    def heard(message):
        if message.type == "error":  # what the page's policy forbids, among others
            troubles.append(message.text)

    def asked(request):
        if not request.url.startswith("file:"):
            troubles.append(request.url)

    def opened(timeline, *, width=1280, dark=False):
        path = tmp_path / "timeline.html"
        timeline.to_html(str(path))
        scheme = "dark" if dark else "light"
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", heard)
        page.on("request", asked)
        page.goto(path.as_uri(), wait_until="load")
        page.wait_for_function("document.querySelector('canvas').width > 300")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def shown(page):
    """The stretch of time and the lanes that the page says it shows."""
    return page.locator("#timeline-readout").inner_text()


def colors(page):
    """How often each color occurs among the lanes."""
    return page.evaluate(
        """() => {
          const canvas = document.querySelector("canvas");
          const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const found = {};
          new Uint32Array(pixels.data.buffer).forEach((value) => {
            const text = "#" + [0, 8, 16].map((by) =>
              ((value >>> by) & 255).toString(16).padStart(2, "0")).join("");
            found[text] = (found[text] || 0) + 1;
          });
          return found;
        }"""
    )


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (420, True)])
def test_lanes_are_drawn_and_the_page_fits(open_timeline, width, dark):
    page = open_timeline(timeline_of(workers=3, rounds=100), width=width, dark=dark)
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    name = f"timeline-{width}{'-dark' if dark else ''}.png"
    page.screenshot(path=SCREENSHOTS / name, full_page=True)
    compute = "#268bc3" if dark else "#07599f"
    assert colors(page)[compute] > 1000


def test_keys_zoom_pan_and_reset(open_timeline):
    page = open_timeline(timeline_of(workers=3, rounds=100))
    whole = shown(page)
    page.locator("canvas").focus()
    page.keyboard.press("+")
    zoomed = shown(page)
    assert zoomed != whole
    page.keyboard.press("ArrowRight")
    assert shown(page) not in (whole, zoomed)
    page.keyboard.press("[")
    assert "driver to worker 0" in shown(page)
    page.keyboard.press("ArrowDown")
    assert "worker 0, host0 to worker 1" in shown(page) or "worker 0 to worker 1" in shown(page)
    page.keyboard.press("0")
    assert shown(page) == whole


def test_drag_zooms_into_the_selected_span(open_timeline):
    page = open_timeline(timeline_of(workers=3, rounds=100))
    box = page.locator("canvas").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.5 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    page.mouse.up()
    seconds = [float(s) for s in re.findall(r"([\d.]+) s", shown(page))]
    elapsed_s = timeline_of(workers=3, rounds=100).elapsed_s
    assert seconds[1] - seconds[0] == pytest.approx(0.11 * elapsed_s, rel=0.1)
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    assert shown(page).startswith("Shown: 0")


def test_disabled_phase_is_hidden(open_timeline):
    page = open_timeline(timeline_of(workers=3, rounds=100))
    button = page.get_by_role("button", name="compute")
    before = colors(page)["#07599f"]
    button.click()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert button.get_attribute("aria-pressed") == "false"
    # What is left is the line of the driver's training, which has the same color.
    assert colors(page).get("#07599f", 0) < 0.5 * before


def test_position_under_the_mouse_is_described(open_timeline):
    page = open_timeline(timeline_of(workers=3, rounds=20))
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + box["height"] - 30)
    assert re.match(r"worker 1.* at .* s: TensorFlow start, 8 s\.", shown(page))


def test_aggregated_spans_are_drawn_for_large_timelines(open_timeline):
    page = open_timeline(timeline_of(workers=300, rounds=50, exact_limit=1000))
    found = colors(page)
    assert found["#07599f"] > 10_000
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2)
    assert re.match(r"workers \d+.\d+ at .*: compute \d+%; ", shown(page))
    page.get_by_role("button", name="Fewer lanes").click()
    assert "driver to worker 14" in shown(page)
