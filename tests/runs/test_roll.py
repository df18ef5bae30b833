"""Who is there, who was lost, and how long to wait for whom."""

from sparkwright.runs._decisions import WorkerRegistered
from sparkwright.runs._protocol import Seat
from sparkwright.runs._roll import Roll


def roll(workers: int = 2, *, slots: int | None = None, now_s: float = 0.0) -> Roll:
    return Roll(
        workers=workers,
        slots=slots,
        rendezvous_timeout_s=60.0,
        queue_timeout_s=600.0,
        replacement_timeout_s=120.0,
        now_s=now_s,
    )


def came(worker: int, attempt: int = 0, *, rows: int = 0) -> WorkerRegistered:
    return WorkerRegistered(
        connection=10 * worker + attempt,
        worker=worker,
        attempt=attempt,
        host=f"host-{worker}",
        address=(f"10.0.0.{worker}", 7000 + attempt),
        rows=rows or 100 + worker,
        validation_rows=worker,
    )


def test_all_are_present_when_each_worker_has_come() -> None:
    found = roll()
    assert found.admit(came(1), 0.0) is None
    assert not found.all_present
    assert found.admit(came(0), 0.0) is None
    assert found.all_present
    assert found.present == {0: came(0), 1: came(1)}
    assert (found.all_rows, found.all_validation_rows) == ((100, 101), (0, 1))


def test_a_newer_attempt_replaces_an_older_one_and_counts() -> None:
    found = roll()
    found.admit(came(0), 0.0)
    assert found.admit(came(0, 2, rows=7), 1.0) == 0
    assert found.present == {0: came(0, 2, rows=7)}
    assert found.attempts == {0: 2}
    assert found.rows == {0: (7, 0)}


def test_an_attempt_is_refused_while_a_newer_or_the_same_one_is_there() -> None:
    found = roll()
    assert found.refusal(came(0, 1)) == ""
    found.admit(came(0, 1), 0.0)
    for attempt in (0, 1):
        reason = "a newer attempt of worker 0 is already at work"
        assert found.refusal(came(0, attempt)) == reason
    assert found.refusal(came(0, 2)) == ""
    assert found.refusal(came(1, 0)) == ""
    found.lose(1, 1.0)
    assert found.refusal(came(0, 1)) == ""


def test_the_loss_of_a_replaced_connection_or_a_strangers_is_nobodys() -> None:
    found = roll()
    found.admit(came(0), 0.0)
    found.admit(came(0, 1), 1.0)
    assert found.lose(0, 2.0) is None
    assert found.lose(99, 2.0) is None
    assert found.present == {0: came(0, 1)}
    assert found.replacement_problem(1000.0) == ""
    assert found.lose(1, 3.0) == came(0, 1)
    assert found.present == {}


def test_rows_of_a_lost_worker_stay_known() -> None:
    found = roll()
    found.admit(came(0), 0.0)
    found.admit(came(1), 0.0)
    found.lose(10, 1.0)
    assert found.all_rows == (100, 101)


def test_seats_are_by_worker_and_only_of_those_asked_for() -> None:
    found = roll(3)
    for worker in (2, 0, 1):
        found.admit(came(worker, worker), 0.0)
    assert found.seats([22, 0]) == (
        Seat(worker=0, host="10.0.0.0", port=7000, attempt=0),
        Seat(worker=2, host="10.0.0.2", port=7002, attempt=2),
    )


def test_before_anybody_comes_the_queue_time_out_counts_from_the_beginning() -> None:
    found = roll(now_s=1000.0)
    assert found.gathering_problem(1600.0) == ""
    problem = found.gathering_problem(1600.1)
    assert problem.startswith("no worker started within 600 s. Other jobs may hold all slots")


def test_after_the_first_has_come_the_rendezvous_time_out_counts_and_the_missing_are_named() -> (
    None
):
    found = roll(3, slots=2)
    found.admit(came(1), 590.0)
    assert found.gathering_problem(650.0) == ""
    problem = found.gathering_problem(650.1)
    assert problem.startswith(
        "the driver waited 60 s for 3 workers and 1 came; missing: workers [0, 2]. Spark has 2 "
        "task slots."
    )


def test_a_lost_worker_is_a_problem_until_it_comes_back() -> None:
    found = roll()
    found.admit(came(0), 0.0)
    found.admit(came(1), 0.0)
    found.lose(10, 5.0)
    assert found.replacement_problem(125.0) == ""
    assert found.replacement_problem(125.1).startswith("worker 1 was lost, and its replacement")
    found.admit(came(1, 1), 126.0)
    assert found.replacement_problem(1000.0) == ""


def test_of_several_lost_workers_the_one_whose_time_is_over_is_named() -> None:
    found = roll()
    found.admit(came(0), 0.0)
    found.admit(came(1), 0.0)
    found.lose(10, 5.0)
    found.lose(0, 50.0)
    assert found.replacement_problem(130.0).startswith("worker 1 was lost")
    assert found.replacement_problem(200.0).startswith("worker 0 was lost")
