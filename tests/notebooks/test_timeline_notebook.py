import json
import re
from pathlib import Path

from sparkwright_widgets._offline_html import outside_resources

NOTEBOOK = "09_timeline.ipynb"
SHORTER = {"epochs=4": "epochs=2"}


def test_infrequent_averaging_leaves_more_time_to_compute(results):
    computing = results["computing"]
    assert 0 < computing["after each"] < computing["after ten"] < 1


def test_worker_phases_are_recorded(results):
    assert {"build", "trace", "data", "compute", "wait", "average"} <= set(results["phases"])


def test_the_page_needs_no_network(results):
    assert outside_resources(Path(results["page"]).read_text()) == []


def test_the_trace_has_events_of_driver_and_workers(results):
    events = json.loads(Path(results["trace"]).read_text())["traceEvents"]
    lanes = {event["pid"] for event in events if event["ph"] == "X"}
    assert len(lanes) == 1 + results["workers"]


def test_the_report_shows_the_lanes_and_the_shares(html):
    assert re.search(r"Share of each phase during training\.", html)
    assert "Result: averaging after each minibatch" in html
