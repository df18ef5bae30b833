"""Driver that asks executors for their engine; prints the error, or where their engine lies.

python ask_executors.py [SPARK_SETTING=VALUE ...]
"""

import sys

import numpy as np

import sparkwright as sw


def main(settings):
    chosen = dict(setting.split("=", 1) for setting in settings)
    spark = sw.start_spark(workers=1, settings=chosen)
    data = sw.data.from_arrays(spark, np.ones((4, 2), np.float32), np.arange(4))

    def where(_):
        import sparkwright

        return sparkwright.__version__, sparkwright.__file__

    try:
        data.collect()
    except sw.ConfigurationError as error:
        print(error)
    else:
        print(*spark.sparkContext.parallelize([0], 1).map(where).first())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
