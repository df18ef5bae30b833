import json

import pytest
from tests.timeline.spans import append, small_timeline

from sparkwright.timeline import PhaseCode, SpanStore


def test_dataframe_has_a_row_per_span_and_deeplearning4j_names():
    frame = small_timeline(rounds=2).to_dataframe()
    assert list(frame.columns) == [
        *("lane", "worker", "host", "phase", "start_s", "seconds", "count", "dl4j")
    ]
    assert len(frame) == 3 + 3 * (2 + 8)
    first = frame[frame["worker"] == 1].iloc[0]
    assert (first["lane"], first["host"], first["phase"]) == ("worker 1", "beta", "tensorflow")
    assert (first["start_s"], first["seconds"], first["count"]) == (1.0, 8.0, 1)
    driver = frame[frame["lane"] == "driver"]
    assert driver["phase"].tolist() == ["count", "gather", "train"]
    assert driver["dl4j"].tolist() == ["CountRDD", "", "Fit"]
    assert driver["host"].tolist() == ["", "", ""]


def test_totals_contain_count_duration_and_worker():
    store = SpanStore(workers=2)
    append(store, 0, (PhaseCode.COMPUTE, 0.0, 1.0), (PhaseCode.COMPUTE, 1.0, 1.0))
    append(store, 1, (PhaseCode.COMPUTE, 0.0, 4.0), (PhaseCode.WAIT, 4.0, 2.0))
    append(store, 1, (PhaseCode.WORK, 0.0, 6.0))
    append(store, -1, (PhaseCode.WAIT, 0.0, 30.0))  # of another place
    compute, wait, work, other = store.timeline().totals()
    assert (compute.place, compute.phase.name, compute.count) == ("workers", "compute", 3)
    assert (compute.seconds, compute.longest_s) == (6.0, 4.0)
    assert compute.share == pytest.approx(6 / 8)
    assert compute.median_s == pytest.approx(1.0, rel=0.0225)
    assert compute.p95_s == pytest.approx(4.0, rel=0.0225)
    assert (compute.slowest_worker, compute.slowest_s) == (1, 4.0)
    assert (wait.share, wait.median_s) == pytest.approx((2 / 8, 2.0), rel=0.0225)
    assert (work.phase.encloses, work.share) == (True, 0.0)
    assert (other.place, other.share, other.slowest_worker) == ("driver", 1.0, None)


def test_summary_names_the_dominant_phase_and_slow_workers():
    text = small_timeline().summary()
    assert "Of the workers' measured time: " in text
    assert "compute" in text.splitlines()[1]
    assert "Worker 2 computes slowest: its spans of computing are 1." in text
    assert "TensorFlow start" in text
    assert "GetInitModel, ModelInit" in text
    assert "known to within 300 µs for 1 of 2 workers." in text
    assert "worker 0: -2 ms ± 300 µs (driver)" in text
    assert "worker 1: +4.5 s ± ? (ntp)" in text
    alike = SpanStore(workers=3)
    for worker in range(3):
        append(alike, worker, (PhaseCode.COMPUTE, 0.0, 1.0 + 0.01 * worker))
    assert "slowest:" not in alike.timeline().what_dominated()


def test_empty_timeline_is_reported_as_empty():
    timeline = SpanStore(workers=2).timeline()
    assert timeline.totals() == []
    assert "Nothing was measured on workers." in timeline.summary()
    assert timeline.to_dataframe().empty
    assert "Nothing was measured" in timeline.html()


def test_deeplearning4j_keys_contain_their_phases():
    timeline = small_timeline(rounds=5)
    table = timeline.dl4j().set_index("key")
    assert table.loc["ParameterAveragingMasterCountRddSizeTimesMs", "seconds"] == 0.5
    got = table.loc["WorkerFlatMapDataSetGetTimesMs"]
    assert (got["name"], got["phases"], got["count"]) == ("GetDataSet", "first_data, data", 15)
    assert table.loc["ParameterAveragingMasterSplitTimesMs", "count"] == 0


def test_files_are_written_atomically_at_any_url(tmp_path):
    timeline = small_timeline(rounds=2)
    timeline.to_html(str(tmp_path / "new" / "timeline.html"))
    assert (tmp_path / "new" / "timeline.html").read_text(encoding="utf-8") == timeline.html()
    timeline.to_chrome_trace(f"file://{tmp_path}/trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "trace.json"]
