import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.timeline.spans import append, small_timeline

from sparkwright.timeline import PhaseCode, SpanStore, phase_of
from sparkwright.timeline.grid import payload_of, shares_of


class Page(HTMLParser):
    """Elements with their attributes, and the texts of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self._inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = False

    def handle_data(self, data):
        if self._inside:
            self.scripts[-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_page_makes_no_requests_and_runs_only_its_own_script():
    text = small_timeline().html()
    page = Page(text)
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy
    data, script = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert json.loads(data)["labels"][1] == "worker 0, alpha"
    for _, attributes in page.elements:
        assert not {"src", "href", "onclick", "srcset"} & set(attributes)
    assert "url(" not in text


def test_images_and_table_regions_have_labels():
    page = Page(small_timeline().html())
    (canvas,) = page.all("canvas")
    assert canvas["role"] == "img"
    assert "Of the workers' measured time" in canvas["aria-label"]
    assert page.all("svg")
    for picture in page.all("svg"):
        assert re.match(r"\d.* spans from .* to ", picture["aria-label"])
    regions = [d["aria-label"] for d in page.all("div") if d.get("role") == "region"]
    assert regions == ["Time by phase", "Workers"]


def test_workers_with_the_longest_compute_time_are_shown(monkeypatch):
    monkeypatch.setattr("sparkwright.timeline.page._MOST_WORKERS", 1)
    store = SpanStore(workers=2)
    append(store, 0, (PhaseCode.COMPUTE, 0.0, 90.0), (PhaseCode.WORK, 0.0, 100.0))
    # Its task took longer, for it waited.
    append(store, 1, (PhaseCode.COMPUTE, 0.0, 80.0), (PhaseCode.WORK, 0.0, 115.0))
    text = store.timeline(hosts=["alpha", "beta"]).html()
    workers = text[text.index("<h2>Workers</h2>") :]
    assert "The 1 workers that computed longest." in workers
    assert ">alpha</td>" in workers
    assert ">beta</td>" not in workers


def pieces_of(payload):
    """Rows, phases, shares of 255, starts and lengths of the pieces of time."""
    first, start, length = (
        np.frombuffer(base64.b64decode(payload[key]), "<u4") for key in ("first", "start", "length")
    )
    phase, share = (
        np.frombuffer(base64.b64decode(payload[key]), np.uint8) for key in ("phase", "share")
    )
    row = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return row, phase, share, start * payload["tick_s"], length * payload["tick_s"]


def test_few_spans_are_shown_individually():
    timeline = small_timeline(rounds=20)
    payload = payload_of(timeline)
    row, phase, share, start_s, seconds = pieces_of(payload)
    labels = [each["label"] for each in payload["phases"]]
    assert np.bincount(row).tolist() == [3, 82, 82, 82]
    assert [labels[place] for place in phase[:5]] == [
        *("count", "waiting for workers", "training"),
        *("TensorFlow start", "model build"),
    ]
    assert payload["exact"]
    assert set(share.tolist()) == {255}
    assert (start_s[3], seconds[3]) == pytest.approx((1.0, 8.0), abs=1e-6)
    assert seconds.sum() == pytest.approx(timeline.tallies.seconds.sum(), rel=1e-6)


def test_many_spans_are_shown_as_shares_of_each_phase():
    timeline = small_timeline(exact_limit=10)
    payload = payload_of(timeline)
    row, phase, share, _, seconds = pieces_of(payload)
    labels = [each["label"] for each in payload["phases"]]
    mine = (row == 1) & (phase == labels.index("TensorFlow start"))
    # Each cell is rounded to a 255th, and what is there at all is shown.
    assert (share * seconds)[mine].sum() / 255 == pytest.approx(8.0, rel=0.01)
    assert not payload["exact"]
    assert "shares of 1 s each" in timeline.html()


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
    hosts = [f"host-{worker // 8}.example" for worker in range(1000)]
    timeline = store.timeline(elapsed_s=hours_s, hosts=hosts)
    assert len(timeline.html().encode()) < 5e6
    assert timeline.rest.width_s > 1.0  # buckets become longer instead of more


def test_more_workers_than_rows_share_rows():
    store = SpanStore(workers=5000, exact_limit=0)
    for worker in (0, 4999):
        append(store, worker, (PhaseCode.COMPUTE, 0.0, 10.0))
    payload = payload_of(store.timeline())
    assert len(payload["labels"]) == len(payload["ranges"]) == 314
    assert payload["labels"][-1] == "workers 4992–4999"  # noqa: RUF001
    row, _, share, _, _ = pieces_of(payload)
    # One of eight workers computed all the time.
    assert set(share[row == 313].tolist()) == {32}


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
    found = shares_of(timeline, phases, row_of_lane=np.array([-1, 0]), columns=columns)
    wanted = timeline.tallies.seconds[1, [6, 7]]
    assert found.sum(axis=2)[0] * column_s == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert found.sum(axis=1).max() <= 1.0 + 1e-5


def test_names_of_hosts_and_runs_are_escaped():
    store = SpanStore(workers=2)
    append(store, 0, (PhaseCode.COMPUTE, 0.0, 1.0))
    hostile = "</script><script>alert(1)</script>"
    page = Page(store.timeline(name=hostile, hosts=[hostile, "&"]).html())
    assert len(page.scripts) == 2
    assert not page.all("img")
    assert json.loads(page.scripts[0])["labels"][1] == f"worker 0, {hostile}"
