"""A timeline's page in a real browser: nothing is fetched, and it is used by mouse and keys."""

import re

import numpy as np
import pytest

from sparkwright.timeline import PhaseCode, SpanStore

pytestmark = pytest.mark.browser

LOOP = np.array([6, 7, 10, 11], np.uint8)
COMPUTE = {"light": "#07599f", "dark": "#268bc3"}


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
def open_timeline(open_file, tmp_path):
    def opened(timeline, **options):
        path = tmp_path / "timeline.html"
        timeline.to_html(str(path))
        page = open_file(path, **options)
        page.wait_for_function("document.querySelector('canvas').width > 300")
        return page

    return opened


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


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_lanes_are_drawn_and_the_page_fits(open_timeline, width, scheme):
    """Only a page paints its canvas, obeys its policy, and has a width."""
    page = open_timeline(timeline_of(workers=3, rounds=100), width=width, scheme=scheme)
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    assert colors(page)[COMPUTE[scheme]] > 1000


def test_lanes_are_zoomed_described_and_hidden_by_keys_and_mouse(open_timeline):
    """Only a browser knows what lies under the mouse."""
    timeline = timeline_of(workers=3, rounds=20)
    page = open_timeline(timeline)
    whole = shown(page)
    page.locator("canvas").press("+")
    zoomed = shown(page)
    assert zoomed != whole
    page.keyboard.press("ArrowRight")
    assert shown(page) not in (whole, zoomed)
    page.keyboard.press("[")
    assert "driver to worker 0" in shown(page)
    page.keyboard.press("ArrowDown")
    assert re.search(r"worker 0(, host0)? to worker 1", shown(page))
    page.keyboard.press("0")
    assert shown(page) == whole

    box = page.locator("canvas").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.5 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    page.mouse.up()
    seconds = [float(s) for s in re.findall(r"([\d.]+) s", shown(page))]
    assert seconds[1] - seconds[0] == pytest.approx(0.11 * timeline.elapsed_s, rel=0.1)
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    assert shown(page).startswith("Shown: 0")
    page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + box["height"] - 30)
    assert re.match(r"worker 1.* at .* s: TensorFlow start, 8 s\.", shown(page))

    button = page.get_by_role("button", name="compute")
    before = colors(page)[COMPUTE["light"]]
    button.click()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert button.get_attribute("aria-pressed") == "false"
    # What is left is the line of the driver's training, which has the same color.
    assert colors(page).get(COMPUTE["light"], 0) < 0.5 * before


def test_aggregated_spans_are_drawn_for_large_timelines(open_timeline):
    """Only a page shares its lanes among workers, as many as its height allows."""
    page = open_timeline(timeline_of(workers=300, rounds=50, exact_limit=1000))
    assert colors(page)[COMPUTE["light"]] > 10_000
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2)
    assert re.match(r"workers \d+.\d+ at .*: compute \d+%; ", shown(page))
    page.get_by_role("button", name="Fewer lanes").click()
    assert "driver to worker 14" in shown(page)
