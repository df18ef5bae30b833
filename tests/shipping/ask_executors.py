"""Driver that asks executors for their engine, which it may replace and then may not.

python ask_executors.py PYTHON

For each session it prints the error, or the version of the executors' engine and where it lies.
"""

import sys

import numpy as np

import sparkwright as sw


def where(_):
    import sparkwright

    return sparkwright.__version__, sparkwright.__file__


def main(python):
    for ship in ("auto", "never"):
        settings = {"spark.pyspark.python": python, "spark.sparkwright.ship": ship}
        spark = sw.start_spark(workers=1, settings=settings)
        data = sw.data.from_arrays(spark, np.ones((4, 2), np.float32), np.arange(4))
        try:
            data.collect()
        except sw.ConfigurationError as error:
            print(error)
        else:
            print(*spark.sparkContext.parallelize([0], 1).map(where).first())
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
