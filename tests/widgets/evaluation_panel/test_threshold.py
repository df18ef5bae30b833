import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sparkwright.evaluation import ROC, ROCMultiClass
from sparkwright_widgets._evaluation_panel._threshold_explorer import (
    ThresholdExplorer,
    ThresholdPoints,
)

ROWS = st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=2, max_size=60).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)
STATIC = Path(__file__).parents[3] / "widgets/sparkwright_widgets/static"


@given(ROWS, st.integers(2, 20), st.integers(-1, 9))
def test_each_position_has_the_counts_of_the_roc(rows, most, tenth):
    roc = ROC.from_predictions([int(label) for label, _ in rows], [s / 8 for _, s in rows])
    points = ThresholdPoints.of(roc, most=most)
    for place in range(len(points)):
        found = points.at(place)
        matrix = roc.confusion_at(found.threshold).confusion
        assert [
            [found.true_negatives, found.false_positives],
            [found.false_negatives, found.true_positives],
        ] == matrix.tolist()
    assert points.at(points.best_f1).threshold == roc.best_threshold("f1")
    assert points.at(points.best_youden).threshold == roc.best_threshold("youden")
    chosen = points.at(points.place_of(tenth / 8)).threshold
    assert chosen >= tenth / 8
    assert points.at(points.place_of(chosen)).threshold == chosen


def scores(rows=5000):
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, rows)
    return ROC.from_predictions(labels, random.normal(size=rows) + labels)


def test_number_of_points_is_bounded_for_many_rows():
    points = ThresholdPoints.of(scores())
    assert 700 < len(points) <= 1004
    assert len(points.to_bytes()) < 25_000


def test_browser_and_python_compute_the_same():
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    points = ThresholdPoints.of(scores(300), most=40)
    script = f"""
      import {{ ThresholdPoints }} from {json.dumps((STATIC / "threshold.mjs").as_uri())};
      const bytes = Uint8Array.from(Buffer.from("{points.to_bytes().hex()}", "hex")).buffer;
      const points = new ThresholdPoints(
        bytes, {points.counts.positives}, {points.counts.negatives});
      const read = (k) => {{
        const f = points.at(k);
        return [f.tp, f.fp, f.tn, f.fn, f.precision, f.recall, f.f1, f.falsePositiveRate,
                f.accuracy, points.cost(k, 1.5, 4)];
      }};
      const places = [-9, -0.3, 0.31, 1, 99].map((t) => points.placeOf(t));
      const found = Array.from(points.thresholds, (t) => points.placeOf(t));
      const all = Array.from({{ length: points.length }}, (_, k) => read(k));
      console.log(JSON.stringify([all, places, found, points.placeOfLeastCost(1.5, 4)]));"""
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    rows, places, found_again, least = json.loads(done.stdout)
    for place, row in enumerate(rows):
        found = points.at(place)
        assert row == pytest.approx(
            [
                found.true_positives, found.false_positives, found.true_negatives,
                found.false_negatives, found.precision, found.recall, found.f1,
                found.false_positive_rate, found.accuracy, found.cost(1.5, 4),
            ],
            rel=1e-15,
        )  # fmt: skip
    assert found_again == list(range(len(points)))
    assert places == [points.place_of(threshold) for threshold in (-9, -0.3, 0.31, 1, 99)]
    costs = [points.at(place).cost(1.5, 4) for place in range(len(points))]
    assert least == costs.index(min(costs))


def test_slider_starts_at_the_best_f1_of_the_selected_class(comms):
    labels = np.arange(60) % 3
    p = np.random.default_rng(0).random((60, 3))
    classes = ROCMultiClass.from_predictions(labels, p, class_names=["a", "b", "c"])
    explorer = ThresholdExplorer(list(zip(classes.output_names, classes.rocs, strict=True)))
    assert explorer.threshold == classes.roc("a").best_threshold()
    moves = []
    explorer.on_move(lambda: moves.append(explorer.reading))
    explorer.set_state({"place": 2})  # as from the browser
    assert moves[-1].threshold == explorer.threshold
    sent = len(comms[-1].sent)
    explorer.set_state({"choice": 2})
    assert explorer.threshold == classes.roc("c").best_threshold()
    states = [data["state"] for _, data, _ in comms[-1].sent[sent:] if "state" in (data or {})]
    new = [state for state in states if "points" in state or "best_f1" in state]
    assert len(new) == 1  # the browser never sees points of one class, a place of another
    explorer.threshold = 2.0
    assert explorer.reading.true_positives == 0
    explorer.close()
