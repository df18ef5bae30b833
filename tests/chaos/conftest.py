"""One session for all experiments that leave the driver alive, and a table of what came of them."""

import json
import os
from pathlib import Path

import pytest
from tests.chaos import counting
from tests.chaos.laboratory import Laboratory
from tests.chaos.verdicts import table

import sparkwright as sw

_verdicts = []


@pytest.fixture(scope="session", autouse=True)
def _send_by_value():
    """Executors cannot import test modules: send their classes whole, as a notebook's are."""
    sw.spark.send_by_value(counting)


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory):
    """Four executors of one core: a worker's replacement has a slot at once."""
    executors = counting.WORKERS + 1

    def start(settings):
        return sw.start_spark(workers=executors, app_name="sparkwright-chaos", settings=settings)

    found = Laboratory(start, tmp_path_factory.mktemp("chaos"), executors=executors)
    yield found
    found.close()


@pytest.fixture
def report():
    """Keep a verdict for the table, and fail if anything is wrong."""

    def keep(verdict):
        _verdicts.append(verdict)
        print(verdict)
        assert not verdict.remarks, str(verdict)

    return keep


def pytest_terminal_summary(terminalreporter):
    if not _verdicts:
        return
    terminalreporter.section("chaos")
    for verdict in _verdicts:
        terminalreporter.line(str(verdict))
    terminalreporter.line("")
    terminalreporter.line(table(_verdicts))
    if target := os.environ.get("SPARKWRIGHT_CHAOS_RECORD"):
        with Path(target).open("a") as file:
            for verdict in _verdicts:
                file.write(json.dumps({"run": str(verdict), "wrong": verdict.remarks}) + "\n")
