from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from sparkwright_widgets.blocks import (
    confusion_figure,
    environment_table,
    partition_table,
    picture,
    summary,
)


def evaluation(confusion, class_names=None):
    return SimpleNamespace(confusion=np.array(confusion, np.int64), class_names=class_names)


def test_summary_has_the_figures_and_the_configuration(run):
    run.report(0, 1, 0.5)
    run.set(state="done", epoch=5)
    block = summary(run)
    assert "0.5000" in str(block)
    html = block.mimebundle()["text/html"]
    assert "5 of 5" in html
    assert "averaging_frequency" in html


def test_partitions_are_listed_with_their_skew():
    block = partition_table([300, 100, 0])
    assert "400 examples in 3 partitions; the largest holds 2.25 times the mean" in str(block)
    assert "1 empty" in str(block)
    assert "width:33.3%" in block.html
    assert "all are empty" in str(partition_table([0, 0]))


@pytest.mark.parametrize("counts", [[], [3, -1]])
def test_invalid_partitions_raise(counts):
    with pytest.raises(ValueError, match=r"Received: counts=\["):
        partition_table(counts)


def test_confusion_matrix_has_a_text_description():
    block = confusion_figure(evaluation([[8, 2], [0, 10]], ["cat", "dog"]))
    sentence = (
        "18 of 20 correct (90.0%); the most frequent confusion is cat predicted as dog (2 times)."
    )
    assert sentence in str(block)
    assert f'role="img" aria-label="Confusion matrix. {sentence}"' in block.html
    assert "<figcaption>" in block.html
    assert "<table" in block.html


def test_captions_are_accessible_labels_of_matrices_of_any_size():
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    block = picture(figure, caption="a < b")
    assert '<svg role="img" aria-label="a &lt; b"' in block.html
    assert "<figcaption>a &lt; b</figcaption>" in block.html
    assert str(block) == "a < b"
    assert "40 of 40 correct (100.0%)." in str(confusion_figure(evaluation(np.eye(40, dtype=int))))
    assert "No examples were evaluated." in str(confusion_figure(evaluation([[0, 0], [0, 0]])))


def test_two_figures_in_one_page_share_no_ids():
    first, second = (confusion_figure(evaluation([[1]])).html for _ in range(2))
    ids = [{part.split('"')[0] for part in html.split(' id="')[1:]} for html in (first, second)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])


def test_environment_names_python_packages_and_java():
    text = str(environment_table())
    for name in ("Python", "tensorflow", "pyspark", "Java", "Processor cores", "Memory"):
        assert name in text


def test_gradient_sharing_summary_reports_sent_bytes(fake):
    run = fake.FakeRun(sharing=True)
    run.report(0, 1, 0.5)
    run.set(state="done", workers=(fake.FakeWorker(worker=0, sent_bytes=3 * 2**20),))
    assert "3.0 MiB" in str(summary(run))
