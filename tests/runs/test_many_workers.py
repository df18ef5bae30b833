"""The coordinator with fifty workers, real connections and a run's record, in seconds."""

from collections.abc import Callable, Iterator

import pytest
from tests.benchmarks.coordinator import Driver

WORKERS = 50


@pytest.fixture
def driver() -> Iterator[Callable[[str], Driver]]:
    made: list[Driver] = []

    def make(kind: str) -> Driver:
        made.append(Driver(WORKERS, kind))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.thorough
def test_fifty_workers_come_send_their_rows_and_end_a_run_of_averaging(
    driver: Callable[[str], Driver],
) -> None:
    here = driver("averaging")
    here.tell("connect")
    assert here.server.silence_s().keys() == set(range(WORKERS))
    here.tell("rows 4")
    here.wait_for_events(4 * WORKERS)
    rows = here.record.log.rows()
    here.tell("finish")
    assert here.ended.wait(30)
    assert here.server.result is not None
    assert len(rows["loss"]) == 4 * 5 * WORKERS


@pytest.mark.thorough
def test_fifty_workers_do_each_piece_of_work_once(driver: Callable[[str], Driver]) -> None:
    here = driver("sharing")
    here.tell("connect")
    done = here.tell("finish")
    assert here.ended.wait(30)
    assert done["pieces"] == 20 * WORKERS
    assert here.progress is not None
    assert sum(here.progress.steps) == 100 * WORKERS  # who is quick takes over work of others
