import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import dense
from tests.support import in_process
from tests.support.ntp_server import ntp_server

import sparkwright as sw

EVERYBODY = {"queued", "shard", "build", "state", "assemble", "first_data", "wait", "work"}


def two_workers(kind, **options):
    return kind(workers=2, batch_size_per_worker=16, seed=1, collect_training_stats=True, **options)


def phases(frame, worker):
    return set(frame[frame.worker == worker].phase)


def assert_is_consistent(run):
    """Nothing overlaps, nothing lies outside of the run or its task; returns the DataFrame."""
    frame = run.timeline.to_dataframe()
    slack_s = 0.01 + sum(clock.uncertainty_s for clock in run.timeline.clocks)
    for worker in (0, 1):
        mine = frame[(frame.worker == worker) & (frame.phase != "work")].sort_values("start_s")
        ends_s = (mine.start_s + mine.seconds).to_numpy()
        gaps_s = mine.start_s.to_numpy()[1:] - ends_s[:-1]
        assert gaps_s.min() >= -slack_s, mine.iloc[max(0, gaps_s.argmin() - 2) :].head(6)
        task = frame[(frame.worker == worker) & (frame.phase == "work")]
        inside = mine[mine.phase != "queued"]
        assert inside.start_s.min() >= task.start_s.min() - slack_s
        assert ends_s.max() <= (task.start_s + task.seconds).max() + slack_s
    assert (frame.start_s + frame.seconds).max() <= run.timeline.elapsed_s + slack_s
    return frame


@pytest.mark.thorough(but=["ParameterAveragingTrainingMaster-own0"])
@cases(
    "kind, own",
    (sw.ParameterAveragingTrainingMaster, {"average", "apply", "validate"}),
    (sw.SharedTrainingMaster, {"encode", "send", "average", "apply", "validate"}),
)
def test_every_phase_of_a_run_is_recorded_in_order(spark, blobs, kind, own):
    network = sw.SparkNetwork(spark, dense(), two_workers(kind))
    run = network.start(blobs, epochs=2, validation=blobs)
    run.wait(60)
    frame = assert_is_consistent(run)
    for worker in (0, 1):
        assert phases(frame, worker) >= EVERYBODY | own
        assert phases(frame, worker) & {"compute", "trace"}
    assert phases(frame, 0) | phases(frame, 1) >= {"deliver"}
    driver = frame[frame.worker == -1].sort_values("start_s")
    assert driver.phase.tolist() == ["layout", "submit", "gather", "train", "finish"]
    assert [clock.worker for clock in run.timeline.clocks] == [0, 1]
    for clock in run.timeline.clocks:
        assert abs(clock.offset_s) <= clock.uncertainty_s + 2e-3  # the same machine's clock
    assert "compute" in run.timeline.summary()


def test_only_driver_phases_are_recorded_by_default(spark, blobs, tmp_path):
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, seed=1, training_approach="export", export_directory=str(tmp_path)
    )
    data = sw.data.from_arrays(spark, blobs.features, blobs.labels)
    uncounted = data.map_chunks(lambda chunk: chunk, step="same", keeps_counts=False)
    run = sw.SparkNetwork(spark, dense(), master).start(data, validation=uncounted)
    run.wait(60)
    frame = run.timeline.to_dataframe()
    assert set(frame.worker) == {-1}
    assert frame.sort_values("start_s").phase.tolist() == [
        *("layout", "export", "layout", "count", "layout"),  # the validation data is counted
        *("submit", "gather", "train", "finish"),
    ]
    assert run.timeline.clocks == ()


def test_spark_averaging_records_the_phases_of_its_jobs(spark, blobs):
    master = two_workers(
        sw.ParameterAveragingTrainingMaster, communication="spark", averaging_frequency=5
    )
    run = sw.SparkNetwork(spark, dense(), master).start(blobs)
    run.wait(60)
    frame = run.timeline.to_dataframe()
    counts = frame[frame.worker == -1].phase.value_counts()
    for name in ("split", "broadcast", "map_partitions", "aggregate", "process_params"):
        assert counts[name] == run.status.averagings
    for worker in (0, 1):
        mine = frame[frame.worker == worker].phase.value_counts()
        assert mine["work"] == mine["queued"] == mine["shard"] == run.status.averagings
        assert mine["compute"] + mine["trace"] >= run.status.averagings
    jobs = frame[frame.phase == "map_partitions"]
    tasks = frame[frame.phase == "work"]
    assert tasks.start_s.min() >= jobs.start_s.min()
    np.testing.assert_array_less(
        [clock.uncertainty_s for clock in run.timeline.clocks], jobs.seconds.max()
    )


def test_driver_and_workers_query_an_ntp_server(spark, blobs):
    with ntp_server(ahead_s=-30.0) as server:
        clock = sw.NtpClock(server=server.address)
        master = two_workers(sw.ParameterAveragingTrainingMaster, time_source=clock)
        run = sw.SparkNetwork(spark, dense(), master).start(blobs)
        run.wait(60)
    assert server.asked >= 3
    frame = assert_is_consistent(run)
    assert phases(frame, 0) & phases(frame, 1) >= EVERYBODY
    assert [each.source for each in run.timeline.clocks] == [server.address] * 2
    for each in run.timeline.clocks:
        assert abs(each.offset_s) <= each.uncertainty_s + 2e-3  # all are wrong alike


@pytest.mark.usefixtures("in_process")
def test_processes_of_one_machine_with_separate_clocks_agree(blobs, monkeypatch):
    monkeypatch.setattr(in_process, "_free", [])  # new trainers, with clocks of their own
    monkeypatch.setenv("SPARKWRIGHT_CLOCK_SHIFT_S", "5.0,-5.0")
    master = two_workers(sw.SharedTrainingMaster)
    with sw.ParallelWrapper(dense(), master, cores_per_worker=1) as wrapper:
        run = wrapper.start(blobs, epochs=2)
        run.wait(60)
    frame = assert_is_consistent(run)
    assert "tensorflow" in phases(frame, 0)
    assert "shard" not in phases(frame, 0)  # the driver writes the files
    driver = frame[frame.worker == -1].sort_values("start_s").phase.tolist()
    assert driver == ["export", "submit", "gather", "train", "finish"]
    for clock, shift_s in zip(run.timeline.clocks, (5.0, -5.0), strict=True):
        assert abs(clock.offset_s - shift_s) <= clock.uncertainty_s + 2e-3
    slack_s = 2e-3 + max(clock.uncertainty_s for clock in run.timeline.clocks)
    training = frame[frame.phase == "train"].iloc[0]
    computing = frame[frame.phase.isin(["compute", "trace"])]
    assert computing.start_s.min() >= training.start_s - slack_s
    assert computing.start_s.max() <= training.start_s + training.seconds
