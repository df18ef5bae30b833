"""The protocol between Python and the browser, with a browser written in Python."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from sparkwright_widgets._loss_feed import LossFeed


class Browser:
    """The rules of static/curve.mjs for a browser that may miss messages."""

    def __init__(self, feed):
        self.feed, self.points, self.next, self.is_complete = feed, [], 0, False

    def hello(self):
        self.receive(self.feed.hello())

    def receive(self, message):
        points = np.frombuffer(message.points, "<f4").reshape(-1, 3).tolist()
        if message.content["kind"] == "snapshot":
            self.points, self.next, self.is_complete = points, message.content["count"], True
        elif message.content["start"] == self.next:
            self.points += points
            self.next += len(points)
        else:
            self.hello()


def report(run, feed, step):
    run.report(0, step, 1 / step)
    feed.add_rows(run.log.rows(len(run.log) - 1))


def test_nothing_is_sent_before_somebody_says_hello(run):
    feed = LossFeed()
    report(run, feed, 1)
    assert feed.append() is None
    browser = Browser(feed)
    browser.hello()
    assert browser.next == 2  # the epoch's beginning and the worker's point
    assert feed.append() is None


def test_appends_say_how_many_points_came_before(run):
    feed = LossFeed()
    feed.hello()
    report(run, feed, 1)
    first = feed.append()
    report(run, feed, 2)
    report(run, feed, 3)
    second = feed.append()
    assert first.content == {"kind": "append", "start": 0}
    assert second.content == {"kind": "append", "start": 2}
    assert len(second.points) == 2 * 12


def test_after_a_restart_a_listening_browser_gets_a_fresh_snapshot(run):
    feed = LossFeed()
    report(run, feed, 1)
    feed.restart()
    assert feed.append() is None  # nobody listens
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


def test_points_travel_as_little_endian_float32(run):
    feed = LossFeed()
    run.report(3, 7, 0.5)
    feed.add_rows(run.log.rows())
    assert np.frombuffer(feed.hello().points, "<f4")[:3].tolist() == [3, 7, 0.5]


@given(events=st.lists(st.sampled_from(["row", "send", "lose", "hello"]), max_size=60))
def test_a_browser_that_misses_messages_ends_with_the_whole_curve(events):
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
        elif (message := feed.append()) and event == "send":
            browser.receive(message)
    assert sorted(browser.points) == sorted(feed.curve.points().tolist())
