import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright_widgets._loss_feed import LossFeed


class Browser:
    """The rules of static/curve.mjs for a browser that may miss messages."""

    def __init__(self, feed):
        self.feed, self.points, self.next, self.is_complete = feed, [], 0, False

    def hello(self):
        self.receive(self.feed.hello())

    def receive(self, messages):
        for content, buffer in messages:
            points = np.frombuffer(buffer, "<f4").reshape(-1, 3).tolist()
            if content["kind"] == "snapshot":
                self.points = points + (self.points if content["part"] else [])
                self.next, self.is_complete = content["count"], True
            elif content["start"] == self.next:
                self.points += points
                self.next += len(points)
            else:
                self.hello()
                return


def report(run, feed, step):
    run.report(0, step, 1 / step)
    feed.add_rows(run.log.rows(len(run.log) - 1))


def test_nothing_is_sent_before_a_page_connects(run):
    feed = LossFeed()
    report(run, feed, 1)
    assert feed.append() == []
    browser = Browser(feed)
    browser.hello()
    assert browser.next == 3  # the epoch's beginning, the step's time and the worker's point
    assert feed.append() == []


def test_restart_sends_a_fresh_snapshot_to_a_connected_browser(run):
    feed = LossFeed()
    report(run, feed, 1)
    feed.restart()
    assert feed.append() == []  # nobody listens
    browser = Browser(feed)
    browser.hello()
    report(run, feed, 2)
    browser.receive(feed.append())
    feed.restart()
    report(run, feed, 3)
    browser.receive(feed.append())
    assert [point[1] for point in browser.points if point[0] == 0] == [3]
    report(run, feed, 4)
    browser.receive(feed.append())
    assert [point[1] for point in browser.points if point[0] == 0] == [3, 4]


@pytest.mark.thorough
def test_messages_are_at_most_one_megabyte(run):
    """Notebooks refuse long messages; 64 workers with 2,000 steps each are 1.5 MB of points."""
    steps, workers = np.repeat(np.arange(1, 2001), 64), np.tile(np.arange(64), 2000)
    ones = np.ones(len(steps), int)
    rows = {"worker": workers, "epoch": ones, "round": steps, "step": steps, "examples": 32 * ones}
    feed = LossFeed()
    browser = Browser(feed)
    browser.hello()
    feed.add_rows({**rows, "loss": 1 / steps})
    for messages in (feed.append(), feed.hello()):
        assert len(messages) > 1
        assert max(len(points) for _, points in messages) < 1_000_000
        browser.receive(messages)
        assert sorted(browser.points) == sorted(feed.curve.points().tolist())


@given(events=st.lists(st.sampled_from(["row", "send", "lose", "hello"]), max_size=60))
def test_browser_that_misses_messages_receives_the_whole_curve(events):
    feed, step = LossFeed(), 0
    browser = Browser(feed)
    browser.hello()
    for event in [*events, "row", "send"]:
        if event == "row":
            step += 1
            feed.add_rows(
                {
                    "worker": np.array([0]),
                    "epoch": np.array([1]),
                    "round": np.array([1]),
                    "step": np.array([step]),
                    "loss": np.array([1 / step]),
                    "examples": np.array([32]),
                }
            )
        elif event == "hello":
            browser.hello()
        elif (messages := feed.append()) and event == "send":
            browser.receive(messages)
    assert sorted(browser.points) == sorted(feed.curve.points().tolist())
