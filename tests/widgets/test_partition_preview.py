import threading

import numpy as np
import pytest

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.partitions import PartitionSurvey
from sparkwright_widgets._partition_preview import PartitionPreview, _bars
from sparkwright_widgets._partition_preview._bars import Bars, bars_svg, pieces

COUNTED = PartitionSurvey(
    rows=(900, 30),
    label_counts=((800, 100, 0), (10, 10, 10)),
    class_names=("cat", "dog", "<owl>"),
)


@pytest.fixture
def preview(comms):
    return PartitionPreview(COUNTED, workers=2)


class FakeData:
    """Stands for a DistributedDataSet."""

    is_counted = False


@pytest.fixture
def spark_preview(comms, monkeypatch):
    """A preview of data whose survey is made up, when `go` is set."""
    import sparkwright.spark
    from sparkwright_widgets._partition_preview import _preview

    go = threading.Event()
    monkeypatch.setattr(_preview, "DistributedDataSet", FakeData)

    def survey(data, **options):
        go.wait(20)
        return PartitionSurvey(rows=(900, 100), size_bytes=(9000, 1000))

    monkeypatch.setattr(sparkwright.spark, "survey_partitions", survey)
    return PartitionPreview(FakeData(), workers=2, batch_size=10), go


def bars(rows, labels=None):
    labels = np.zeros((len(rows), 0)) if labels is None else np.array(labels, float)
    names = tuple(f"c{k}" for k in range(labels.shape[1]))
    return Bars(rows=tuple(rows), labels=labels, class_names=names, noun="partition")


def test_bars_match_row_counts_and_label_shares():
    made = bars([100, 50, 0])
    assert pieces(made)[""].tolist() == [100, 50, 0]
    svg = bars_svg(made, made)
    assert 'role="img"' in svg
    assert "the largest is partition 0 with 100, the smallest has 0" in svg
    found = pieces(bars([100, 60], [[3, 1], [0, 0]]))
    assert found["c0"].tolist() == [75, 0]
    assert found["c1"].tolist() == [25, 0]
    assert found["unknown"].tolist() == [0, 60]


def test_many_classes_are_drawn_as_the_most_frequent_and_others():
    found = pieces(bars([300], [[*range(30)]]))
    assert list(found) == [*(f"c{number}" for number in range(19, 30)), "19 others"]
    assert sum(found.values()) == pytest.approx(300)


@pytest.mark.parametrize("partitions", [64, 65, 100_000])
def test_figure_stays_small(partitions):
    made = bars([5] * partitions)
    assert len(made.heights) <= 64
    svg = bars_svg(made, bars([1, 2]))
    assert len(svg) < 100_000
    assert (made.per_bar > 1) == (partitions > 64)


def test_bars_before_and_after_share_one_scale(monkeypatch):
    tops = []
    monkeypatch.setattr(
        _bars, "inline_svg", lambda figure, alt: tops.append(figure.axes[0].get_ylim()[1]) or alt
    )
    bars_svg(bars([100, 50, 20, 10, 20]), bars([120, 80]))
    assert tops[0] == tops[1] > 120


def test_known_counts_are_shown_without_a_click(preview):
    assert preview.forecast.plan.target_counts == (465, 465)
    assert "1.94 → 1.00" in preview.figures.value
    assert "all counted" in preview.notes.value
    assert "Only counts are given" in preview.reason.value
    assert preview.count_button.disabled
    kept = preview._repr_mimebundle_()
    assert "Skew (largest / mean): 1.94 → 1.00" in kept["text/plain"]
    for words in ("<svg", "sparkwright-table", ".sparkwright-bars"):
        assert words in kept["text/html"]
    for html in (preview.pictures.value, preview.tables.value, kept["text/html"]):
        assert "<owl>" not in html
    assert "&lt;owl&gt;" in kept["text/html"]


def test_choices_change_the_forecast_and_notify_listeners(preview):
    told = []
    preview.on_change(told.append)
    preview.form.field("mode").control.value = "never"
    assert preview.mode == "never"
    assert preview.forecast.plan.action == "unchanged"
    assert "Better: mode" in preview.figures.value
    assert told == [preview]
    preview.strategy = "spark_default"
    assert preview.form.field("strategy").control.value == "spark_default"
    assert "▶ chosen" in preview.tables.value
    with pytest.raises(ConfigurationError, match="strategy"):
        preview.strategy = "best"
    preview.form.field("workers").control.value = "0"
    assert "at least 1" in preview.form.field("workers").alert.value
    assert preview.workers == 2


def test_context_is_applied_without_notification(preview):
    told = []
    preview.on_change(told.append)
    preview.set_context(workers=5, batch_size=7, kind="sharing", step_s=0.1)
    assert (preview.workers, preview.batch_size) == (5, 7)
    assert preview.form.field("workers").control.value == "5"
    assert "Saved per epoch" in preview.tables.value
    assert "take over minibatches of busy ones" in preview.figures.value
    assert told == []


def test_invalid_context_raises(preview):
    for context in ({"workers": 0}, {"batch_size": 0}, {"kind": "x"}):
        with pytest.raises(ConfigurationError, match=next(iter(context))):
            preview.set_context(**context)
    assert preview.workers == 2


def test_embedded_preview_of_empty_partitions_has_no_option_fields(comms):
    preview = PartitionPreview([0, 0], embedded=True)
    assert preview.form.names == {"mode", "strategy"}
    preview.set_context(workers=4)
    assert preview.error.value == ""
    assert "There are no rows" in preview.figures.value


def test_nothing_is_shown_without_data(comms):
    preview = PartitionPreview()
    assert preview.forecast is None
    assert preview._still() is None
    assert "no data yet" in preview.reason.value
    assert preview.count_button.disabled
    with pytest.raises(DataError, match="Received: str"):
        preview.data = "a.csv"


def test_many_partitions_are_computed_in_the_background(comms):
    preview = PartitionPreview([*range(2000)], workers=2000)
    preview.set_context(workers=3)  # meanwhile
    assert preview.settle()
    assert preview.settle()  # what the new context asked for
    assert preview.forecast.plan.workers == 3
    assert preview.error.value == ""
    assert len(preview.tables.value) < 200_000
    assert "1,800 more are not listed" in preview.tables.value


def test_counting_runs_in_the_background(spark_preview):
    preview, go = spark_preview
    assert "Count first" in preview.reason.value
    told = []
    preview.on_change(told.append)
    preview.count_button.click()
    assert preview.count_button.disabled
    assert "Counting rows and labels" in preview.doing.value
    go.set()
    assert preview.settle()
    assert preview.survey.rows == (900, 100)
    assert not preview.count_button.disabled
    assert told == [preview]
    assert preview.doing.value == ""


@pytest.mark.thorough
def test_counts_and_forecasts_of_other_data_are_dropped(spark_preview):
    preview, go = spark_preview
    preview.count_button.click()
    preview.data = [5] * 600  # whose forecasts are computed in the background
    preview.data = [10, 20, 30]
    go.set()
    assert preview.settle()
    assert preview.survey.rows == preview.forecast.survey.rows == (10, 20, 30)
    assert {each.survey.total for each in preview.forecasts} == {60}


def test_button_applies_the_advised_repartition_where_it_is_better(comms):
    preview = PartitionPreview([980, 240, 120, 60, 40], workers=2, mode="never")
    told = []
    preview.on_change(lambda part: told.append((part.mode, part.strategy)))
    assert preview.advised_button.layout.display is None
    assert preview.advised_button.description.startswith("Repartition: ")
    waiting = preview.forecast.idle_after
    preview.advised_button.click()
    assert preview.forecast.idle_after < waiting
    assert told == [(preview.mode, preview.strategy)]
    assert preview.advised_button.layout.display == "none"
