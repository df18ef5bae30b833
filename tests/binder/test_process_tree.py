import subprocess
import sys

import pytest
from tests.binder.process_tree import ProcessTree, Watch

MIB = 2**20
HOLD = "held = bytearray(60 * 2**20); print(flush=True); input()"
# A child that holds memory, and whose parent ends when it is told to.
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {HOLD!r}], stdin=subprocess.PIPE)
input()
child.stdin.detach()
"""


@pytest.fixture
def start():
    started = []

    def start(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        process.stdout.readline()
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.communicate("\n")


def test_memory_includes_child_processes(start):
    alone = ProcessTree(start("print(flush=True); input()").pid).sample()
    both = ProcessTree(start(PARENT).pid).sample()
    assert both.pss_bytes > alone.pss_bytes + 60 * MIB
    assert len(both.by_process) == 2
    assert sum(both.by_process.values()) == both.pss_bytes


def test_peak_and_latest_memory_are_kept(start):
    process = start(HOLD)
    with Watch(ProcessTree(process.pid), every_s=60) as watch:
        process.communicate("\n")
    assert watch.count == 2
    assert watch.peak.pss_bytes > 60 * MIB
    assert watch.last.pss_bytes == 0
