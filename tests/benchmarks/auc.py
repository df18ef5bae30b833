"""The exact area under the ROC curve of ten million scores, against scikit-learn's."""

import numpy as np
from tests.benchmarks._harness import compared, in_turn

import sparkwright as sw
from sparkwright.evaluation import ROC
from sparkwright.spark._exact_roc import digested

COUNT, PARTS = 10_000_000, 8


def auc():
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
        sides = {
            "scikit-learn": lambda scores=scores: float(roc_auc_score(labels, scores)),
            "ROC": lambda scores=scores: ROC.from_predictions(labels, scores).auc,
            "a digest of 2 workers": lambda given=given: _digest(given),
        }
        areas = {name: side() for name, side in sides.items()}  # brings the scores to executors
        found = in_turn(3, sides)
        given.unpersist()
        for name in list(sides)[1:]:
            times_faster = compared("", "", found["scikit-learn"], found[name])["ratio"]
            yield compared(
                f"AUC of {COUNT / 1e6:g} M {np.dtype(dtype).name}: {name}, against sklearn",
                *("s", found[name], found["scikit-learn"]),
                ratio=times_faster,
                target="> 1 (times faster)" if name == "ROC" else "",
                runs={"seconds": found, "areas": areas},
            )
    spark.stop()


def _digest(given):
    """What `evaluate_roc` does with what its tasks predicted."""
    parts = given.map(lambda pair: ROC.from_predictions(*pair)).persist()
    try:
        digest = digested(ROC(), parts, examples=COUNT)
        return digest.auc
    finally:
        parts.unpersist()
