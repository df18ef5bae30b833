import re
from pathlib import Path

from sparkwright_widgets._offline_html import outside_resources

NOTEBOOK = "02_gradient_sharing.ipynb"
TIMEOUT_S = 280
EPOCHS, MINIBATCHES, PARAMETERS = 15, 46, 431_080  # of all workers in an epoch; of LeNet


def test_both_masters_learn_to_classify_digits(results):
    assert results["workers"] == 2
    assert results["averaging_accuracy"] > 0.93
    assert results["sharing_accuracy"] > 0.93
    assert results["averaging_seconds"] > 0
    assert results["sharing_seconds"] > 0


def test_messages_are_smaller_than_dense_updates(results):
    assert results["dense_bytes"] == EPOCHS * MINIBATCHES * 4 * PARAMETERS
    assert 0 < 20 * results["message_bytes"] < results["dense_bytes"]


def test_average_at_the_end_of_an_epoch_counts_as_sent_bytes(results):
    averages = results["sharing_bytes"] - results["message_bytes"]
    assert averages == EPOCHS * 2 * 3 * 4 * PARAMETERS  # two workers, Adam's state with the rest
    assert results["averaging_bytes"] == 5 * averages  # after every 5 of 23 minibatches
    assert results["sharing_bytes"] < results["averaging_bytes"] < results["dense_bytes"]


def test_new_network_continues_from_the_checkpoint(results, html):
    assert "checkpoint-0000000" in html
    # At least those of the worker whose twentieth minibatch made the checkpoint due.
    assert 20 <= results["minibatches_kept"] <= 2 * MINIBATCHES
    assert results["resumed_minibatches"] == 5 * MINIBATCHES
    assert results["resumed_accuracy"] > 0.93


def test_combined_report_covers_both_runs(results):
    html = Path(results["runs_report"]).read_text()
    assert outside_resources(html) == []
    for name in ("averaging", "sharing"):
        assert f"{results[f'{name}_accuracy']:.4f}" in html
    for master in ("ParameterAveragingTrainingMaster", "SharedTrainingMaster"):
        assert master in html


def test_the_report_has_the_results_in_its_table_and_on_top(html, results):
    side_by_side = html.partition('<h2 id="Side-by-side"')[2]
    for name in ("averaging", "sharing"):
        row = re.search(rf"<tr>\s*<th[^>]*>{name}</th>.*?</tr>", side_by_side, re.DOTALL)
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row[0])
        assert cells[0] == f"{results[f'{name}_accuracy']:.1%}"
        assert cells[2] == f"{results[f'{name}_bytes']:,}"
        assert len(cells) == 5
    assert f"<strong>Result: averaging classifies {results['averaging_accuracy']:.1%}" in html
    assert "import sparkwright" not in html
