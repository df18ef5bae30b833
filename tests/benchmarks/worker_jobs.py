"""What it costs to submit each worker as a job of its own, against one job for all.

    python -m tests.benchmarks.worker_jobs

Tasks do nothing and follow a shuffle, as a run's do. Prints seconds until all are over.
"""

import statistics
import time

import sparkwright as sw
from sparkwright.cluster.jobs import SparkJob, run_partition

ROUNDS = 3


def one_job(spark, tasks):
    """Seconds of one job with a task for each partition."""
    began_s = time.monotonic()
    SparkJob(spark, tasks.collect, description="one job").wait()
    return time.monotonic() - began_s


def many_jobs(spark, tasks):
    """Seconds of a job for each partition, submitted together."""
    began_s = time.monotonic()
    jobs = [
        SparkJob(spark, lambda p=p: run_partition(tasks, p), description=f"job {p}")
        for p in range(tasks.getNumPartitions())
    ]
    for job in jobs:
        job.wait()
    return time.monotonic() - began_s


def main():
    """Measure."""
    spark = sw.start_spark(workers=2, cores_per_worker=2)
    for workers in (2, 64, 1000):
        numbers = spark.sparkContext.parallelize(range(workers), 2).map(lambda n: (n, n))
        tasks = numbers.partitionBy(workers).mapPartitions(list)
        one_job(spark, tasks)  # Python workers start
        pairs = [(one_job(spark, tasks), many_jobs(spark, tasks)) for _ in range(ROUNDS)]
        one, many = (statistics.median(each) for each in zip(*pairs, strict=True))
        print(f"{workers:5} workers: one job {one:6.2f} s, a job each {many:6.2f} s", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
