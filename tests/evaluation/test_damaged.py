import base64
import json
import math

import numpy as np
import pytest
from tests.evaluation.test_contract import digest

import sparkwright as sw

EVALUATION = sw.Evaluation.from_predictions(
    [0, 1], [[0.25, 0.75], [0.125, 0.875]], records=[5, 6], keep_errors=2, top_n=2
)
BINARY = sw.EvaluationBinary.from_predictions([[0, 1]], [[0.25, 0.75]], roc_thresholds=0)
CALIBRATION = sw.EvaluationCalibration.from_predictions(
    [0, 1, 1, 0], [[0.25], [0.75], [0.5], [0.125]], reliability_bins=4, histogram_bins=2
)
REGRESSION = sw.RegressionEvaluation.from_predictions(
    [[1.0, 2], [3, 4], [5, 7]], [[1.0, 1], [2, 1], [3, 3]]
)


def scores_of(values):
    return base64.b64encode(np.array(values, "<f8").tobytes()).decode()


# Evaluation -> path -> values that cannot be there.
ROCS = sw.ROCBinary.from_predictions([[0, 1], [1, 0]], [[0.25, 0.5], [0.75, 0.5]], names=["a", "b"])
REFUSED = [
    (
        EVALUATION,
        {
            "confusion": [[[1, 2], [3]], [[1.5, 2], [3, 4]], [[2**63, 0], [0, 0]], [["1"]], {}, []],
            "class_names": [["a"], 3, ["a", "a"]],
            "top_n_correct": [3, None, 1.0],
            "kept_errors/0/probability": ["x", 10**400, math.inf],
            "kept_errors/0/actual": [1, -1],
            "kept_errors/0/predicted": [9],
            "kept_errors/0/step": [[-1]],
        },
    ),
    (
        BINARY,
        {
            "confusion": [[[1, 2], [3, 4]], [[[-1, 2], [3, 4]]], 3],
            "rows": [0, 3, 1.5, "1"],
            "thresholds": [2, [0.5], {"a": 1}],
            "roc_thresholds": [None, 5],
            "roc": [None, 3, sw.EvaluationBinary(roc_thresholds=0).to_dict()["roc"]],
        },
    ),
    (
        ROCS,
        {
            "names": [["a"], ["a", "a"], "ab", [1, 2]],
            "rows": [1, 5, None],
            "rocs": [None, [1, 2], [{"name": "roc"}]],
        },
    ),
    (
        sw.ROC.from_predictions([1, 0, 1], [0.5, 0.25, 0.75]),
        {
            "thresholds": ["0", 10**9, 2],
            "positives/count": [10**12, -1, 1],
            "positives/dtype": ["object", "float32"],
            "positives/sorted": ["!" * 24, scores_of([0.5, 0.25]), scores_of([0.5, math.inf]), 3],
        },
    ),
    (
        sw.ROC.from_predictions([1, 0, 1], [0.5, 0.25, 0.75], thresholds=2),
        {"positives": [[1, 2], [1, 2, -1], [1, 2, 0.5], [2**62, 2**62, 0], None]},
    ),
    (
        digest(),
        {
            "auc_numerator": [-1, 9, 1.5],
            "steps": [-1.0, 3.0, math.nan],
            "counts/positives": [3, 1, True],
            "counts/true_positives": [[1, 1, 1, 1], [2, 1, 1, 0], None],
            "counts/thresholds": [[0.125, 0.25, 0.5, 0.75], [0.75, 0.5, 0.25, "x"], [0.5, 0.25]],
        },
    ),
    (
        CALIBRATION,
        {
            "reliability_bins": [5, 10**12, "4"],
            "counts/predicted": [[4], [3, 2], [5, -1], [1 << 70, 0]],
            "counts/in_bin/0": [[4, 0, 0, 0], [1, 0, 0, 0]],
            "counts/squared_errors/high": [[-1.0, 1.0], [0.5]],
        },
    ),
    (
        REGRESSION,
        {
            "rows": [2, 7, True, "3"],
            "moments/counts": [[2, 3], [3.0, 3.0], [-3, 3]],
            "moments/largest": [[math.nan, 1], [-1.0, 1], ["1", 1]],
            "moments/products/high/0": [[-1.0, 1.0]],
            "moments/means/high": [[[1.0, 2.0]]],
            "samples/0/counts": [[1, 1], [1, 1, 0], [1, 1, 2], [1, 1, 1 << 70]],
            "samples/0/labels": [[1.0, 3.0, "5"], [1.0, 3.0, 1e160], [1.0, 3.0, 10**400]],
        },
    ),
]  # fmt: skip
CASES = [
    pytest.param(one, path, value, id=f"{one.name}-{path}-{value!r:.30}")
    for one, paths in REFUSED
    for path, values in paths.items()
    for value in values
]


@pytest.mark.parametrize(("one", "path", "value"), CASES)
def test_damaged_values_are_rejected(one, path, value):
    values = json.loads(one.to_json())
    assert type(one).from_dict(values) == one
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("/"))
    place = values
    for key in parents:
        place = place[key]
    place[last] = value
    with pytest.raises(sw.DataError):
        type(one).from_dict(values)
