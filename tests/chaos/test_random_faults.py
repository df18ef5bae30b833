"""Faults that a seed chooses, on real processes.

make chaos             the experiments of this folder, 100 random ones among them
make chaos RUNS=4      the short form, as continuous integration runs it
make chaos FIRST=40    seeds from 40 on
"""

import os

import pytest
from tests.chaos.experiments import draw

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(240)]

RUNS = int(os.environ.get("SPARKWRIGHT_CHAOS_RUNS", "4"))
FIRST = int(os.environ.get("SPARKWRIGHT_CHAOS_FIRST", "0"))


@pytest.mark.parametrize("experiment", [draw(n) for n in range(FIRST, FIRST + RUNS)], ids=str)
def test_a_run_survives_a_random_fault(laboratory, report, experiment):
    report(laboratory.perform(experiment))
