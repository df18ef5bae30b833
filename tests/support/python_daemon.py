"""PySpark's daemon for tests: imports once what each new Python worker would import.

Spark starts a new Python worker after every failed task. Without this module each of them spends
about a second importing pandas, PyArrow and the engine. Choose it before Spark starts:
`spark.python.daemon.module=tests.support.python_daemon`, with this repository in PYTHONPATH.
"""

import importlib

if __name__ == "__main__":
    for name in ("pandas", "pyspark.worker", "sparkwright.data"):
        importlib.import_module(name)
    importlib.import_module("pyspark.daemon").manager()
