import re

import numpy as np

NOTEBOOK = "12_transformer.ipynb"


def test_two_workers_learn_to_reverse(results):
    assert results["workers"] == 2
    assert results["accuracy"] > 0.8
    assert 0 < results["message_bytes"] < 4 * results["parameters"] / 16


def test_an_attention_head_attends_to_the_opposite_step(results):
    attention = np.array(results["attention"])
    heads, steps, _ = attention.shape
    assert (heads, steps) == (2, 10)
    opposite = attention[:, np.arange(steps), steps - 1 - np.arange(steps)]
    assert opposite.max(axis=0).mean() > 3 / steps  # of random weights it would be 1 / steps


def test_report_shows_predictions_and_attention(html, results):
    assert f"<strong>Result: {results['accuracy']:.1%} of " in html
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html, re.DOTALL)
    assert any("Mean attention of each head" in caption for caption in captions)
    assert html.count("reversed:") == 3
    assert f"{results['parameters']:,} parameters" in html
