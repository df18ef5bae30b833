import base64
import io
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image
from tests.timeline.spans import append, small_timeline

from sparkwright.timeline import PhaseCode, SpanStore, phase_of
from sparkwright.timeline.page import lanes_html, rows_of_lanes, shares_of
from sparkwright_widgets._offline_html import outside_resources


def pixels_of(text):
    """The colors of the only picture, (height, width, 4) RGBA."""
    (png,) = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        return np.asarray(image.convert("RGBA"))


def area(pixels, code):
    color = bytes.fromhex(phase_of(code).color[1:])
    return int((pixels[..., :3] == list(color)).all(axis=2).sum())


def test_page_is_self_contained_accessible_and_without_scripts():
    text = small_timeline().html()
    assert outside_resources(text) == []
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert "<script" not in text
    (alternative,) = re.findall(r'<img alt="([^"]+)"', text)
    assert "3 workers, 14.7 s, 609 spans. Of the workers&#x27; measured time: " in alternative
    assert 'role="region" aria-label="Time by phase"' in text
    assert ">TensorFlow start</td>" in text
    assert phase_of(PhaseCode.TENSORFLOW).meaning.replace("'", "&#x27;") in text
    assert "worker 1: +4.5 s ± ? (ntp)" in text


def test_names_of_hosts_and_runs_are_escaped():
    store = SpanStore(workers=2)
    append(store, 0, (PhaseCode.COMPUTE, 0.0, 1.0))
    hostile = "</title><script>alert(1)</script>"
    text = store.timeline(name=hostile, hosts=[hostile, "&"]).html()
    assert "<script" not in text
    assert "worker 0, &lt;/title&gt;" in text


@pytest.mark.parametrize("exact_limit", [0, 500_000])
def test_areas_are_proportional_to_times(exact_limit):
    store = SpanStore(workers=3, exact_limit=exact_limit)
    for worker in range(3):
        append(store, worker, (PhaseCode.TENSORFLOW, 0.0, 20.0), (PhaseCode.COMPUTE, 20.0, 60.0))
        append(store, worker, (PhaseCode.WORK, 0.0, 100.0))
    pixels = pixels_of(store.timeline().html())
    seconds_of = {PhaseCode.TENSORFLOW: 20, PhaseCode.COMPUTE: 60}
    for code, seconds in seconds_of.items():  # the lowest 3 of 20 pixels are the whole task's
        assert area(pixels, code) / (3 * 17 * 960) == pytest.approx(seconds / 100, rel=0.02)
    assert area(pixels, PhaseCode.WORK) == 3 * 3 * 960
    assert (pixels[20:24, :, 3] == 0).all()  # between the lanes


def test_page_of_1000_workers_and_10_hours_is_below_5_megabytes():
    hours_s = 36_000.0
    store = SpanStore(workers=1000, exact_limit=5_000)
    rng = np.random.default_rng(0)
    codes = np.tile(np.array([6, 7, 8, 9, 10, 11, 12, 13], np.uint8), 300)
    for worker in range(1000):
        append(store, worker, (PhaseCode.SHARD, 0.0, 5.0), (PhaseCode.TENSORFLOW, 5.0, 9.0))
        seconds = rng.gamma(2.0, 1.0, len(codes))
        seconds *= (hours_s - 20.0) / seconds.sum()
        starts_s = 20.0 + np.concatenate([[0.0], np.cumsum(seconds)[:-1]])
        store.append(worker, codes, starts_s, seconds.astype(np.float32))
    timeline = store.timeline(elapsed_s=hours_s, hosts=[f"host-{w // 8}" for w in range(1000)])
    assert len(timeline.html().encode()) < 5e6
    assert timeline.rest.width_s > 1.0  # buckets become longer instead of more


def test_more_workers_than_rows_share_rows():
    store = SpanStore(workers=1000)
    for worker in (0, 999):
        append(store, worker, (PhaseCode.COMPUTE, 0.0, 10.0))
    timeline = store.timeline()
    labels = rows_of_lanes(timeline, most=24)[1]
    assert len(labels) == 24
    assert labels[:2] + labels[-1:] == ["driver", "workers 0–43", "workers 968–999"]  # noqa: RUF001
    pixels = pixels_of(lanes_html(timeline, most=24))
    assert pixels.shape == (24 * 24, 960, 4)
    assert area(pixels, PhaseCode.COMPUTE) == 960  # one of the last 32 workers, one of 20 pixels


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.floats(0, 90), st.floats(0, 40)), min_size=1, max_size=30
    ),
    st.integers(1, 60),
    st.booleans(),
)
def test_shares_add_up_to_the_measured_time(rows, columns, keeps_none):
    # One after the other: what a lane does at once would be cut off at a whole column.
    store = SpanStore(workers=1, exact_limit=0 if keeps_none else 100)
    at_s = 0.0
    for place, pause_s, seconds in rows:
        append(store, 0, ([6, 7][place], at_s + pause_s / 30, seconds))
        at_s += pause_s / 30 + float(np.float32(seconds))
    timeline = store.timeline()
    column_s = max(timeline.elapsed_s, 1e-6) / columns
    phases = [phase_of(code) for code in (6, 7)]
    found = shares_of(timeline, phases, row_of_lane=np.array([0, 1]), columns=columns)
    wanted = timeline.tallies.seconds[1, [6, 7]]
    assert found.sum(axis=2)[1] * column_s == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert found.sum(axis=1).max() <= 1.0 + 1e-5
