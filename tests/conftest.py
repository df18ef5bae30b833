"""One Spark session for the whole test run: starting Spark and TensorFlow is what costs."""

import gc
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import engine
from tests.scripts import started_ahead
from tests.support import spark_classes, tally
from tests.support.connect_server import ConnectServer
from tests.support.leftovers import shards_of

# On shared cores a slow example is no error. Half of Hypothesis' default number of examples keeps
# `make test` short; each run draws others.
settings.register_profile("sparkwright", parent=settings.default, deadline=None, max_examples=50)
settings.load_profile("sparkwright")
# Less than the time-out of a test, which would show nothing of what fails.
engine.MAX_SHRINKING_SECONDS = 60

# Temporary files of this run alone: what another run on this machine is writing is no leak of this
# one's. What pytest keeps for looking at afterwards stays where it would be.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
_temporary = tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True)
os.environ["TMPDIR"] = tempfile.tempdir = _temporary.name

# Runs of the tests, of other processes too, are stored there and never in the home folder.
os.environ["SPARKWRIGHT_RUNS"] = str(Path(_temporary.name) / "runs" / "runs.sqlite")

# Before Spark starts anywhere, in other processes too.
_settings = spark_classes.FOLDER if spark_classes.FOLDER.exists() else spark_classes.DEFAULTS
os.environ.setdefault("SPARK_CONF_DIR", str(_settings))

# Counts of this process and of those that it starts; the processes of pytest-xdist have their own.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ[tally.FOLDER] += "/" + os.environ["PYTEST_XDIST_WORKER"]
else:
    os.environ[tally.FOLDER] = f"{_temporary.name}/tally"
Path(os.environ[tally.FOLDER]).mkdir()
tally.enter("collection")
tally.install()
# Trainers and Spark's Python workers take this process' path. First, because Debian's Python has a
# `sitecustomize` of its own, and the counts would depend on the Python that runs the tests.
sys.path.insert(0, str(tally.STARTUP))

# Before TensorFlow is imported anywhere: quiet, and no thread pool beyond the machine's two cores.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")


# The session of the tests is then one of Spark Connect.
_CONNECT = "SPARKWRIGHT_TEST_CONNECT"


# Else `import nbformat` builds 38 parsers for formats of addresses, for 2.5 s.
sys.modules.setdefault("rfc3987_syntax", None)


# Fixture -> the marks of all tests that use it.
_MARKS = {
    **dict.fromkeys(("spark", "script_result"), ("spark",)),
    **{"executions": ("notebook", "spark"), "chromium": ("browser",)},
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Run tests of Spark first, in one process that shares a session; other files beside them."""
    _keep_short_cases(items, config.args)
    for item in items:
        for fixture in _MARKS.keys() & set(getattr(item, "fixturenames", [])):
            for mark in _MARKS[fixture]:
                item.add_marker(mark)
    items.sort(key=lambda item: not item.get_closest_marker("spark"))  # stable
    for item in items:
        group = "spark" if item.get_closest_marker("spark") else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))


def _keep_short_cases(items, selected):
    """Take the mark `thorough(but=…)` from the cases that it names.

    Raises:
        pytest.UsageError: if a whole file is collected and a test in it has no such case.
    """
    absent = {}
    for item in items:
        mark = next((m for m in item.own_markers if m.name == "thorough" and m.kwargs), None)
        if mark is None:
            continue
        case, test = _case_of(item), item.nodeid.partition("[")[0]
        absent.setdefault(test, set(mark.kwargs["but"])).discard(case)
        if case in mark.kwargs["but"]:
            item.own_markers.remove(mark)
    unknown = {test: names for test, names in absent.items() if names}
    if unknown and not any("::" in argument for argument in selected):
        raise pytest.UsageError(f"`thorough(but=…)` must name cases. Received: {unknown}.")


def _case_of(item):
    return item.name.partition("[")[2].removesuffix("]")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage meanwhile, and keep tests and modules out of later collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    """Refuse a pytest-xdist that ignores the groups: each process would start Spark.

    Raises:
        pytest.UsageError: naming pytest's version.
    """
    if node.config.getoption("dist") == "loadgroup" and any("@" not in name for name in ids):
        raise pytest.UsageError(
            "pytest-xdist must group tests as `xdist_group` says. Received: "
            f"pytest {pytest.__version__}. Install the version that constraints.txt names."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Count for the package of the running test."""
    parts = Path(item.location[0]).parts
    tally.enter(parts[1] if len(parts) > 2 else parts[0])
    try:
        return (yield)
    finally:
        tally.count_jobs()


def pytest_terminal_summary(terminalreporter):
    """Print the numbers of processes, graphs, sessions and jobs; write them to a file."""
    counts = tally.total(Path(os.environ[tally.FOLDER]))
    reports = Path(__file__).parents[1] / "reports"
    reports.mkdir(exist_ok=True)
    (reports / "tally.json").write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    for kind, by_package in counts.items():
        listed = ", ".join(f"{name} {number:,}" for name, number in by_package.items())
        terminalreporter.write_line(f"{kind}: {sum(by_package.values()):,} ({listed})")


@pytest.fixture(scope="session")
def spark():
    """Four executors of one core: enough for four workers, or two runs of two at once.

    With SPARKWRIGHT_TEST_CONNECT they are those of a Spark Connect server, in `make connect`.
    """
    if os.environ.get(_CONNECT):
        from pyspark.sql import SparkSession

        with ConnectServer(executors=4) as server:
            remote = SparkSession.builder.remote(server.url).getOrCreate()
            yield remote
            remote.stop()
        return
    import sparkwright as sw
    from sparkwright.cluster.slots import wait_for_slots

    # Sessions of other suites use Spark's own daemon and the kit's own settings.
    settings = {
        # Python workers start with the imports done, by a module of the tests.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(
            [
                *(str(Path(__file__).parents[1]), str(tally.STARTUP)),
                *filter(None, [os.environ.get("PYTHONPATH")]),
            ]
        ),
        "spark.python.daemon.module": "tests.support.python_daemon",
        # Else SQL functions have an environment of their own, and so daemons and trainers.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": False,
    }
    session = sw.start_spark(workers=4, app_name="sparkwright-tests", settings=settings)
    wait_for_slots(session, 4)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def script_results(request, tmp_path_factory):
    """What `run_script(folder)` of each selected module returns, run beside the tests.

    Tests that measure time must not come between the first use and the last one.
    """

    def run(module):
        return module.run_script(tmp_path_factory.mktemp("script"))

    with started_ahead(request, run, attribute="run_script", at_a_time=1) as started:
        yield started


@pytest.fixture(scope="module")
def script_result(request, script_results):
    """What this module's `run_script` returned."""
    return script_results[request.module].result()


@pytest.fixture
def in_process(monkeypatch):
    """Workers of a ParallelWrapper are threads of this process."""
    from tests.support.in_process import InProcessPool

    monkeypatch.setattr("sparkwright.local.TrainerPool", InProcessPool)


@pytest.fixture
def blobs():
    """120 examples, 4 features, 3 classes that can be told apart."""
    import numpy as np

    from sparkwright.data import DataSet

    random = np.random.default_rng(0)
    labels = np.arange(120, dtype=np.int32) % 3
    centers = random.normal(size=(3, 4)) * 2
    features = centers[labels] + random.normal(size=(120, 4))
    return DataSet(features.astype(np.float32), labels)


@pytest.fixture
def leaves_nothing(spark):
    """Fail the test if it leaves threads, sockets, cached RDDs or temporary files behind."""
    before = _footprint(spark)
    yield
    _assert_settles(lambda: _leaked(before, _footprint(spark)))


def _footprint(spark):
    import threading

    import psutil

    listening = {
        str(c.laddr)
        for c in psutil.Process().net_connections(kind="tcp")
        if c.status == psutil.CONN_LISTEN
    }
    names = {t.name for t in threading.enumerate() if t.name.startswith("sparkwright")}
    own = Path(tempfile.gettempdir())
    files = {
        *own.glob("sparkwright-*-export-*"),
        *own.glob("sparkwright-*/sparkwright-*-scratch-*"),
        *_shards(spark),
    }
    jvm = None if os.environ.get(_CONNECT) else spark.sparkContext._jsc
    cached = {str(i) for i in jvm.getPersistentRDDs().keySet()} if jvm else set()
    return {
        "threads": names,
        "sockets": listening,
        "files": {str(path) for path in files},
        "cached RDDs": cached,
    }


def _leaked(before, after):
    return {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind]}


def _assert_settles(leaked, seconds=20.0):
    import time

    deadline = time.monotonic() + seconds
    while (found := leaked()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not found


def _shards(spark):
    """What executors of this session keep; sessions of other test processes come and go."""
    import psutil

    if os.environ.get(_CONNECT):
        return []  # a server's executors, which are not this process' children
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
    return shards_of(jvm.children(recursive=True))
