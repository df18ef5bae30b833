"""Whether Spark started, and whether its executors could be looked at."""

from collections.abc import Iterator

from ._check import Check
from ._findings import Findings
from ._grouping import Note

_KNOWN_FAILURES = {
    "PYTHON_VERSION_MISMATCH": (
        "Set PYSPARK_PYTHON for executors to a Python of the driver's version "
        "(`spark.pyspark.python`), or ship an environment with `spark.archives`."
    ),
    "Cannot run program": (
        "There is no such Python on the executors: set `spark.pyspark.python`, or ship an "
        "environment with `spark.archives`."
    ),
    "No module named 'pyspark'": (
        "The executors' Python finds no PySpark: install it there, or unset PYTHONPATH."
    ),
    "no task of": (
        "Other jobs may hold all slots, or the cluster has given no executors: look at Spark's "
        "pages, and at the cluster manager's. Wait longer with `timeout_s=`."
    ),
}


def job_checks(findings: Findings) -> Iterator[Check]:
    """Whether the executors could be looked at."""
    if findings.spark_problem:
        remedy = "See what it says; `sparkwright.start_spark` gives the same."
        yield Note("problem", findings.spark_problem, remedy).check("Spark", "Spark")
    spark = findings.spark
    if spark is None:
        if not findings.spark_problem:
            note = Note("not checked", "no Spark session", "Call `sw.doctor(spark)`.")
            yield note.check("Executors", "Spark")
        return
    if findings.job_problem:
        yield _job(findings.job_problem).check("Executors", "Spark")
    if not findings.executors:
        return
    seen = len(findings.executors)
    if spark.came is not None and spark.came < spark.tasks and not findings.job_problem:
        yield Note(
            "warning",
            f"{spark.came} of {spark.tasks} tasks ran at the same time, on {seen} executors",
            "A run needs all its workers at once. Other jobs may hold the slots, GPUs may be fewer "
            "than cores, or executors were still starting: look again.",
        ).check("Executors", "Spark")
    elif not findings.job_problem:
        note = Note("ok", f"{seen} looked at, {spark.tasks} task slots")
        yield note.check("Executors", "Spark")


def _job(problem: str) -> Note:
    """What is wrong, by the words that Spark uses for it."""
    for words, remedy in _KNOWN_FAILURES.items():
        if words in problem:
            return Note("problem", problem, remedy)
    return Note("problem", problem, "Look into the executors' logs (stderr) in Spark's pages.")
