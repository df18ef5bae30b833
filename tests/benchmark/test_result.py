"""What a benchmark shows and sends; and the command, around a benchmark that is made up."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkwright as sw
from sparkwright.errors import ConfigurationError
from sparkwright.masters import MeshConfig, ParameterAveragingTrainingMaster, advise
from sparkwright.networks.presets import lenet_spec

# The package and its function have one name; attributes lead to the function.
command = importlib.import_module("sparkwright.benchmark.__main__")
measuring = importlib.import_module("sparkwright.benchmark._benchmark")
result_of = importlib.import_module("sparkwright.benchmark._result")

MASTER = ParameterAveragingTrainingMaster(
    batch_size_per_worker=32,
    mesh=MeshConfig(controller_address="driver.example.org"),
    checkpoint=sw.Checkpointing(url="hdfs://name.example.org/runs"),
)


def run(workers: int, rate: float, predicted: float | None = 0.9) -> dict[str, Any]:
    return {
        "workers": workers,
        "examples_per_s": rate,
        "minibatch_s": 32 * workers / rate,
        "round_s": 5 * 32 * workers / rate,
        "averaging_s": 0.005,
        "times_faster": rate / 1000,
        "efficiency": rate / (1000 * workers),
        "predicted": predicted,
    }


@pytest.fixture
def result() -> Any:
    return result_of.BenchmarkResult(
        date="2026-11-25T08:00:00+00:00",
        seconds=61.0,
        environment={"sparkwright": "1", "python": "3.11"},
        cluster={"master": "yarn", "executors": 2, "slots": 2, "machines": 2},
        model={
            "name": "lenet",
            "parameters": 431_080,
            "vector_bytes": 1_724_320,
            "updater_bytes": 3_448_640,
            "batch_size": 32,
        },
        master=MASTER.to_dict(),
        network={"bandwidth_bytes_per_s": 1.25e8, "latency_s": 1e-4},
        fit={"step_s": 0.03, "epochs": 4, "seconds": 6.0, "reached_s": 4.5, "best": 0.97},
        runs=(run(1, 1000.0), run(2, 1500.0, predicted=None)),
        goal={
            "metric": "accuracy",
            "target": 0.95,
            "workers": 2,
            "fit_s": 4.5,
            "workers_s": None,
            "best": 0.93,
        },
        advice=advise(MASTER, workers=2, step_s=0.03, vector_bytes=1_724_320),
        notes=("4 workers: left out, 60 s were not enough.",),
    )


def test_text_has_a_row_per_worker_count_and_lists_skipped_measurements(result: Any) -> None:
    lines = str(result).splitlines()
    assert lines[0] == ("lenet, 431,080 parameters, minibatches of 32; yarn, 2 task slots")
    assert "Network: 1 Gbit/s, latency 100 µs; machines: 2." in lines
    assert (
        "Time to accuracy of 0.95: `model.fit` on one executor 4.5 s, 2 workers not reached."
    ) in lines
    assert "4 workers: left out, 60 s were not enough." in lines
    assert lines[-1].split() == ["2", "1,500", "42.7", "ms", "213", "ms", "5", "ms", "1.50",
                                 "75%", "?"]  # fmt: skip
    assert "<table>" in result._repr_html_()
    assert result.table.workers.tolist() == [1, 2]


def test_json_contains_no_addresses_and_is_written_to_the_given_path(
    result: Any, tmp_path: Path
) -> None:
    text = result.to_json(str(tmp_path / "report.json"))
    assert (tmp_path / "report.json").read_text() == text
    found = json.loads(text)
    assert "example.org" not in text
    assert found["master"]["averaging_frequency"] == 5
    assert found["runs"][1]["predicted"] is None
    assert found["advice"]["alternatives"][0]["settings"] == ""
    assert found["notes"] == list(result.notes)


def test_figure_shows_rates_and_efficiency(result: Any) -> None:
    figure = result.figure()
    rates, efficiency = figure.axes
    assert rates.lines[0].get_ydata().tolist() == [1000.0, 1500.0]
    assert efficiency.lines[0].get_ydata().tolist() == [1.0, 0.75]
    assert np.isnan(efficiency.lines[1].get_ydata()).tolist() == [False, True]  # predicted


def called(result: Any, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """What the command returns, with Spark and the benchmark replaced."""

    class Session:
        def stop(self) -> None: ...

    def start_spark(**options: Any) -> Session:
        assert options == {"master": "yarn", "workers": 3, "settings": {"spark.a": "b=c"}}
        return Session()

    def benchmark(spark: Any, **options: Any) -> Any:
        assert options == {"target": 0.9, "budget_s": 60.0, "include_hosts": False}
        return result

    monkeypatch.setattr("sparkwright.spark.command_line.start_spark", start_spark)
    monkeypatch.setattr(command, "benchmark", benchmark)
    given = "--master yarn --workers 3 --conf spark.a=b=c --target 0.9 --budget 60"
    return command.main([*given.split(), *arguments])


def test_command_prints_the_table_and_writes_json_and_a_figure(
    result: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    assert called(result, monkeypatch, "--output", str(tmp_path / "report.json")) == 0
    assert capsys.readouterr().out.rstrip() == str(result)
    assert json.loads((tmp_path / "report.json").read_text())["runs"]
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert called(replace(result, runs=()), monkeypatch) == 1


def test_table_and_json_are_available_without_matplotlib(
    result: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert called(result, monkeypatch, "--output", str(tmp_path / "report.json")) == 0
    written = capsys.readouterr()
    assert "efficiency" in written.out
    assert "plots need matplotlib" in written.err
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_command_rejects_settings_without_a_value(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        command.main(["--conf", "spark.a"])
    assert "write NAME=VALUE. Received: 'spark.a'." in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [{"budget_s": 1}, {"model": "m"}, {"data": "d"}, {"workers": [0]}, {"workers": ["2"]}]
)
def test_invalid_arguments_raise(wrong: dict[str, Any]) -> None:
    session: Any = None  # nothing is asked of it before the arguments are checked
    with pytest.raises(ConfigurationError, match="Received: "):
        sw.benchmark(session, **{"workers": [1], **wrong})


def test_data_is_held_in_memory_up_to_an_example_limit() -> None:
    many = sw.DataSet(np.zeros((20_010, 1), np.float32), np.zeros(20_010, np.int32))
    assert len(measuring._in_memory(many, "data")) == 20_000
    with pytest.raises(ConfigurationError, match="`data` must be a DataSet"):
        measuring._in_memory([1, 2], "data")


def test_advice_for_a_parameter_count_requires_step_time_and_workers() -> None:
    for message, options in (
        ("`step_s` is needed", {"workers": 2}),
        ("`workers` is not known", {"step_s": 0.1}),
        (
            "`bandwidth_bytes_per_s` must be",
            {"workers": 2, "step_s": 0.1, "bandwidth_bytes_per_s": -1},
        ),
        ("`latency_s` must be", {"workers": 2, "step_s": 0.1, "latency_s": 0}),
    ):
        with pytest.raises(ConfigurationError, match=message):
            sw.advise(1000, **options)
    found = sw.advise(25_010_000, workers=2, step_s=0.6, bandwidth_bytes_per_s=1.25e8)
    assert (found.vector_bytes, found.updater_bytes) == (100_040_000, 200_080_000)
    assert found.sources == ()
    assert isinstance(found.master, ParameterAveragingTrainingMaster)
    assumed = sw.advise(1000, workers=2, step_s=0.1)
    assert assumed.sources == (
        "Network: assumed; give `bandwidth_bytes_per_s`, or `spark` to measure it.",
    )


def test_advice_for_a_network_reads_its_sizes_from_keras() -> None:
    model = sw.networks.lenet()
    found = sw.advise(model, workers=2, step_s=0.01)
    assert (found.vector_bytes, found.updater_bytes) == (1_724_320, 3_448_640)
    spec = lenet_spec()
    assert sw.advise(spec, workers=2, step_s=0.01).alternatives == found.alternatives
    with pytest.raises(ConfigurationError, match="`network` must be a SparkNetwork"):
        sw.advise("lenet", workers=2, step_s=0.01)
