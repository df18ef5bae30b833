"""The exact area under the ROC curve of ten million scores, against scikit-learn's."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import sparkwright as sw
from sparkwright.evaluation import ROC
from sparkwright.spark._exact_roc import digested

Row = dict[str, Any]
REPEATS = 3
COUNT = 10_000_000
PARTS = 8


def auc() -> Iterator[Row]:
    """Seconds from labels and scores to the area: in one process, and on two workers."""
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(0)
    labels = random.integers(0, 2, COUNT).astype(np.int32)
    drawn = 1 / (1 + np.exp(-random.normal(labels - 0.5, 1.0)))
    spark = sw.start_spark(workers=2)
    for dtype in (np.float32, np.float64):
        scores = drawn.astype(dtype)
        pairs = zip(np.array_split(labels, PARTS), np.array_split(scores, PARTS), strict=True)
        given = spark.sparkContext.parallelize(list(pairs), PARTS).persist()
        sides: dict[str, Callable[[], float]] = {
            "scikit-learn": lambda scores=scores: float(roc_auc_score(labels, scores)),
            "ROC": lambda scores=scores: ROC.from_predictions(labels, scores).auc,
            "a digest of 2 workers": lambda given=given: _digest(given),
        }
        areas = {name: side() for name, side in sides.items()}  # brings the scores to executors
        found: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(REPEATS):
            for name, side in sides.items():
                began_s = time.perf_counter()
                side()
                found[name].append(time.perf_counter() - began_s)
        given.unpersist()
        for name in list(sides)[1:]:
            ratios = [b / a for a, b in zip(found[name], found["scikit-learn"], strict=True)]
            yield {
                "what": f"AUC of {COUNT / 1e6:g} M {np.dtype(dtype).name}: {name}, against sklearn",
                "value": statistics.median(found[name]),
                "unit": "s",
                "baseline": statistics.median(found["scikit-learn"]),
                "ratio": statistics.median(ratios),
                "target": "> 1 (times faster)" if name == "ROC" else "",
                "runs": {"seconds": found, "areas": areas},
            }
    spark.stop()


def _digest(given: Any) -> float:
    """What `evaluate_roc` does with what its tasks predicted."""
    parts = given.map(lambda pair: ROC.from_predictions(*pair)).persist()
    try:
        digest: Any = digested(ROC(), parts, examples=COUNT)
        return digest.auc
    finally:
        parts.unpersist()
