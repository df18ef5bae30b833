import dataclasses
import math
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

import sparkwright as sw
from sparkwright.networks import LayerSpec, NetworkSpec, OutputSpec
from sparkwright.partitions import plan_repartition
from sparkwright.timeline import PhaseCode, SpanStore
from sparkwright.timeline.spans import SpanBlock
from sparkwright_widgets._offline_html import outside_resources
from sparkwright_widgets._reports import _run_report
from sparkwright_widgets._reports._comparison_report import comparison_html, report_runs
from sparkwright_widgets._reports._data_blocks import data_blocks, distribution_blocks
from sparkwright_widgets._reports._environment_blocks import (
    environment_block,
    reproducing_code,
    warnings_block,
)
from sparkwright_widgets._reports._facts import best_of, epochs_of, facts_of
from sparkwright_widgets._reports._learning_blocks import learning_blocks
from sparkwright_widgets._reports._network_facts import network_facts
from sparkwright_widgets._reports._page import pictures_without_text
from sparkwright_widgets._reports._run_report import report_of, run_report_html, verdict_sentence

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.fixture
def trained(fake):
    """Return a function: a fake run of two workers and some epochs that has ended."""

    def trained(epochs=3, *, validates=True, state="done", accuracy=(0.5, 0.9, 0.8), **options):
        run = fake.FakeRun(**options)
        for step in range(1, 4 * epochs + 1):
            for worker in range(2):
                run.report(worker, step, 2.0 / step + worker / 10, epoch=(step + 3) // 4)
        points = tuple(
            fake.FakeValidation(
                epoch=epoch, step=4 * epoch, loss=1.0 / epoch, metrics={"accuracy": score}
            )
            for epoch, score in enumerate(accuracy[:epochs], start=1)
            if validates
        )
        run.set(state=state, message="done", epoch=epochs, epochs=epochs, validation=points)
        return run

    return trained


def report(run, **options):
    return run_report_html(run, made_at=NOW, **options)


@pytest.mark.thorough
def test_report_is_complete_and_needs_no_network(trained):
    run = trained()
    run.configuration["partitions"] = plan_repartition([100, 20], workers=2).to_dict()
    labels = np.arange(90) % 3
    html = report(
        run,
        network=NetworkSpec(
            name="tiny",
            layers=(
                LayerSpec(kind="Input", name="features", options={"shape": [4]}),
                LayerSpec(kind="Dense", name="out", options={"units": 3}),
            ),
            outputs=(OutputSpec(layer="out", loss="mse"),),
        ),
        evaluations=sw.Evaluation(["ant", "bee", "cat"]).updated(labels, np.eye(3)[labels]),
        data={"train": sw.DataSet(np.zeros((90, 4), np.float32), labels)},
        title="Ants & bees",
    )
    assert outside_resources(html) == []
    assert pictures_without_text(html) == []
    for words in (
        "<title>Ants &amp; bees</title>",
        "Best validation accuracy 0.9 in epoch 2 of 3; all 3 epochs were trained.",
        *("How it learned", "Evaluation", "Data", "Network", "Environment", "Warnings"),
        "3 classes of “labels”, each with 30 examples in train.",
        "The network “tiny” has 1 layer and 15 parameters.",
        "master = sw.ParameterAveragingTrainingMaster()",
        "No warnings were raised.",
    ):
        assert words in html
    # Each picture has a sentence below it and a table beside it.
    assert html.count("<svg") == html.count("<figcaption>") >= 5
    assert html.count("as a table") == html.count("<svg")


@pytest.mark.parametrize("rows", [0, 1])
def test_run_with_zero_or_one_minibatch_has_a_report(fake, rows):
    run = fake.FakeRun()
    for _ in range(rows):
        run.report(0, 1, 2.5)
    run.set(state="stopped", message="stopped; the model holds the last average", epoch=rows)
    html = report(run)
    assert "◼" in html
    assert "Stopped; the model holds the last average." in html or rows
    assert ("No minibatch has been reported." in html) == (rows == 0)
    assert pictures_without_text(html) == []


def test_failed_run_shows_its_error_escaped(trained):
    run = trained(state="failed")
    run.set(message="worker 1: <script>alert(1)</script>", error="Traceback\n<b>ValueError</b>")
    run.title = "<i>title</i>"
    html = report(run)
    assert "<script>" not in html
    assert "<b>ValueError" not in html
    assert "<i>title" not in html
    assert "Training failed." in html


def test_non_finite_losses_become_gaps_and_a_warning(trained):
    run = trained()
    run.report(0, 13, math.nan, epoch=3, examples_per_s=math.nan)  # an unreported minibatch
    assert warnings_block(facts_of(run)).text == "No warnings were raised."
    run.report(0, 14, math.nan, epoch=3)
    facts = facts_of(run)
    assert "1 minibatch was not a finite number" in warnings_block(facts).text
    assert np.isfinite(epochs_of(facts)[-1].loss)
    report(run)


def test_epoch_loss_weights_minibatches_by_examples(fake):
    run = fake.FakeRun()
    run.report(0, 1, 1.0, examples=30)
    run.report(0, 2, 4.0, examples=10)
    (epoch,) = epochs_of(facts_of(run))
    assert epoch.loss == pytest.approx(1.75)
    assert epoch.gap is None


def test_best_epoch_is_that_of_the_best_known_score(fake, trained):
    def best(run):
        facts = facts_of(run)
        found = best_of(facts, epochs_of(facts))
        assert found.epoch == 3
        return found.name, verdict_sentence(facts, found)

    assert best(trained(validates=False))[0] == "training loss"
    run = trained()  # of a metric whose direction is not known
    points = run.status.validation
    run.set(validation=tuple(dataclasses.replace(p, metrics={"something": 1.0}) for p in points))
    name, sentence = best(run)
    assert name == "validation loss"
    assert sentence.startswith("Best validation loss 0.3333 in epoch 3 of 3;")


def test_gap_is_in_the_caption_and_the_best_row_is_marked(trained):
    facts = facts_of(trained())
    epochs = epochs_of(facts)
    block = learning_blocks(epochs, best_of(facts, epochs))[0]
    assert "the validation loss ends" in block.text
    assert block.html.count("★ best") == 1
    assert "Validation minus" not in block.text


def test_timeline_is_shown_only_if_phases_were_collected(trained):
    run = trained()
    assert "collect_training_stats=True" in distribution_blocks(facts_of(run))[-1].text
    store = SpanStore(workers=2)
    for worker, code, seconds in (
        (-1, PhaseCode.TRAIN, 9.0),
        (0, PhaseCode.COMPUTE, 3.0),
        (0, PhaseCode.WAIT, 1.0),
        (1, PhaseCode.COMPUTE, 4.0),
    ):
        store.append(worker, *SpanBlock.of_one(code, 1.0, seconds))
    run.timeline = store.timeline()
    block = distribution_blocks(facts_of(run))[-1]
    assert "Of the workers' measured time: 87.5% compute, 12.5% wait for peers." in block.text
    assert '<img alt="Lanes colored by phase' in block.html


def test_overviews_add_information_to_the_run(trained):
    run = trained()
    run.configuration["data"] = {"train": {"rows": 4, "fingerprint": "abc" * 20}}
    run.configuration["partitions"] = {}
    seen = {"train": {"rows": 4, "size_bytes": 2048, "classes": {"kind": {"a": 3, "b": 1}}}}
    sets, classes = data_blocks(facts_of(run), seen)
    assert "2.0 KiB" in sets.text
    assert "abcabcabcabcabca…" in sets.text
    assert "the largest is 3 times the smallest" in classes.text


def test_long_partition_and_class_lists_are_truncated_with_a_note(trained):
    run = trained()
    run.configuration["partitions"] = plan_repartition([5] * 500, workers=2).to_dict()
    seen = {"train": {"rows": 300, "classes": {"kind": {str(k): 3 for k in range(100)}}}}
    texts = [block.text for block in data_blocks(facts_of(run), seen)]
    assert "60 more classes are not shown." in texts[1]
    assert "436 more are not shown." in texts[-1]


def test_secrets_and_lists_in_the_environment_are_escaped(trained):
    run = trained()
    run.configuration["spark_settings"] = {"spark.app.name": "<b>mine</b>"}
    run.configuration["java"] = "17.0.15"
    block = environment_block(facts_of(run))
    assert "&lt;b&gt;mine" in block.html
    assert block.text.count("Java") == 1


@pytest.mark.parametrize("on_spark", [False, True])
def test_cell_that_reproduces_a_run_is_valid_python(trained, on_spark):
    run = trained()
    run.configuration |= {
        "epochs": 3,
        "revision": "0" * 40,
        "callbacks": ["EarlyStopping(patience=2)"],
        **({"spark_master": "local[2]"} if on_spark else {}),
    }
    code = reproducing_code(facts_of(run), None, master_code="master = ...")
    compile(code, "cell", "exec")
    assert code.startswith(f"# git checkout {'0' * 40}")
    assert "# EarlyStopping(patience=2)" in code
    assert ("sw.SparkNetwork(spark, model, master)" in code) == on_spark
    assert "epochs=3, validation=validation, callbacks=callbacks" in code


def test_run_with_known_code_needs_no_placeholders(trained):
    run = trained()
    run.configuration["revision"] = "0" * 40
    run.code = sw.Experiment(epochs=7).to_code()
    code = reproducing_code(facts_of(run), None, master_code="master = ...")
    compile(code, "cell", "exec")
    assert code == f"# git checkout {'0' * 40}\n{run.code.rstrip()}"
    html = report(run)
    assert "data = sw.data.digits(spark)" in html
    assert "left to fill in" not in html


def test_keras_model_is_described_without_importing_keras():
    weights = [np.zeros((4, 3)), np.zeros(3)]
    output = SimpleNamespace(shape=(None, 3), dtype="float32")
    dense = SimpleNamespace(
        name="out", output=output, built=True, weights=weights, trainable_weights=weights
    )
    model = SimpleNamespace(
        name="net",
        layers=[dense],
        weights=dense.weights,
        trainable_weights=dense.weights,
        loss={"out": "mse"},
        optimizer=None,
        to_json=lambda: '{"a": 1}',
    )
    found = network_facts(SimpleNamespace(model=model))
    assert found.layers == [("out", "SimpleNamespace", "3", "15")]
    assert (found.trainable, found.loss) == (15, "mse of out")
    assert network_facts("no network") is None


@pytest.mark.parametrize(
    ("options", "words"),
    [({"evaluations": ["none"]}, "evaluations"), ({"data": {"train": [1, 2]}}, "train=list")],
    ids=["evaluations", "data"],
)
def test_invalid_parts_of_a_report_raise(trained, options, words):
    with pytest.raises(sw.ConfigurationError, match=words):
        report(trained(), **options)


def test_missing_model_is_reported_without_raising(trained, tmp_path):
    html = report(trained(), model_url=f"{tmp_path}/none.keras")
    assert "The file cannot be read" in html


@pytest.mark.thorough
def test_file_name_selects_html_or_pdf(trained, monkeypatch):
    monkeypatch.setattr(_run_report, "pdf_of", lambda html: b"%PDF" + html[:9].encode())
    assert report_of(trained(), url="a.PDF").startswith(b"%PDF<!DOCTYPE")
    assert report_of(trained(), url="a.html").startswith(b"<!DOCTYPE")


def test_runs_are_compared_by_results_curves_and_differing_settings(trained, tmp_path):
    one, other = trained(title="first"), trained(title="second", accuracy=(0.6, 0.7, 0.95))
    other.configuration["seed"] = 8
    report_runs([one, other], f"{tmp_path}/runs.html", title="Two & more")
    html = (tmp_path / "runs.html").read_text()
    assert "The best validation accuracy, 0.95, is that of 2. second." in html
    assert "1 option differed; all others were equal." in html
    assert outside_resources(html) == []
    assert pictures_without_text(html) == []
    assert html.count("<svg") == 3


def test_equal_runs_are_reported_as_equal(trained):
    html = comparison_html({"a": trained(), "b": trained()}, made_at=NOW)
    assert "The runs have the same configuration." in html
    assert "All runs reach the same validation accuracy, 0.9." in html
    with pytest.raises(sw.ConfigurationError, match="at least one run"):
        comparison_html([], made_at=NOW)
