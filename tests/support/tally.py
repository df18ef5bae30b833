"""Count what makes tests slow, in all processes of a test run, by the package of the running test.

Counted are trainer processes, graphs that TensorFlow traces, Spark sessions and Spark jobs. Each
process appends lines to a file in the folder that SPARKWRIGHT_TALLY names; the process that runs
the tests writes there which package they belong to. `tests/support/startup` counts in trainers and
Spark's Python workers.
"""

import contextlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections import Counter
from pathlib import Path

FOLDER = "SPARKWRIGHT_TALLY"
STARTUP = Path(__file__).with_name("startup")
_jobs = {}  # application -> jobs that are counted
_TRACING = "tensorflow.python.framework.func_graph"


def count(kind, number=1):
    """Add to a count of the package whose test runs now."""
    folder = Path(os.environ[FOLDER])
    # Tests fill disks and use up descriptors, and a trainer may outlive the folder.
    with contextlib.suppress(OSError):
        package = (folder / "package").read_text(encoding="utf-8")
        with (folder / f"{os.getpid()}.count").open("a", encoding="utf-8") as file:
            file.write(f"{kind}\t{package}\t{number}\n")


def enter(package):
    """Count for this package from now on."""
    (Path(os.environ[FOLDER]) / "package").write_text(package, encoding="utf-8")


def total(folder):
    """Kind -> package -> number, of all processes that counted below a folder."""
    found = {}
    for file in folder.rglob("*.count"):
        for line in file.read_text(encoding="utf-8").splitlines():
            kind, package, number = line.split("\t")
            found.setdefault(kind, Counter())[package] += int(number)
    return {kind: dict(sorted(counts.items())) for kind, counts in sorted(found.items())}


def install():
    """Count in this process, once: pytest imports `startup/sitecustomize.py` again for doctests."""
    if any(isinstance(finder, _CountTracing) for finder in sys.meta_path):
        return
    if "sparkwright.workers._trainer" in sys.orig_argv:
        count("trainers")
    sys.addaudithook(_count_session)
    sys.meta_path.insert(0, _CountTracing())


def count_jobs():
    """Count the jobs that Spark has run in this process' session since the last call."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return
    jobs = context._jsc.sc().dagScheduler().numTotalJobs()
    counted = _jobs.get(context.applicationId, 0)
    if jobs > counted:
        count("jobs", jobs - counted)
        _jobs[context.applicationId] = jobs


def _count_session(event, arguments):
    if event == "subprocess.Popen" and "pyspark-shell" in map(str, arguments[1]):
        count("sessions")


class _CountTracing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Wraps the function of TensorFlow that traces graphs, when its module is imported."""

    def find_spec(self, fullname, path, target=None):
        if fullname != _TRACING:
            return None
        self._found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        return importlib.machinery.ModuleSpec(fullname, self, origin=self._found.origin)

    def exec_module(self, module):
        module.__file__ = self._found.origin
        self._found.loader.exec_module(module)
        traced = module.func_graph_from_py_func

        def counted(*args, **kwargs):
            count("traces")
            return traced(*args, **kwargs)

        module.func_graph_from_py_func = counted
