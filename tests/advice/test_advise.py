import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.advice import MeasuredRun, predict
from sparkwright.errors import ConfigurationError, NetworkError
from sparkwright.networks.presets import lenet_spec

command = importlib.import_module("sparkwright.advice.__main__")
runs_of = importlib.import_module("sparkwright.advice._advise")


@pytest.fixture
def measured():
    """Advice with two measured runs, of a master with addresses."""
    master = sw.ParameterAveragingTrainingMaster(
        batch_size_per_worker=32,
        mesh=sw.MeshConfig(controller_address="driver.example.org"),
        checkpoint=sw.Checkpointing(url="hdfs://name.example.org/runs"),
    )
    runs = [
        MeasuredRun(workers=count, examples_per_s=rate, minibatch_s=0.03)
        for count, rate in ((1, 1000.0), (2, 1500.0))
    ]
    return predict(master, workers=2, step_s=0.03, vector_bytes=1_724_320, runs=runs)


def test_measured_runs_are_shown_beside_their_prediction(measured):
    predicted = f"{100 * measured.at(2).efficiency:.3g}%"
    lines = [line.split() for line in str(measured).splitlines()]
    assert ["2", "1,500", "30", "ms", "1.50", "75%", predicted] in lines
    assert "<table>" in measured._repr_html_()
    alone = replace(measured, runs=measured.runs[1:])
    assert ["2", "1,500", "30", "ms", "?", "?", predicted] in [
        line.split() for line in str(alone).splitlines()
    ]


def called(found, monkeypatch, *arguments):
    """What the command returns, with Spark and the measurements replaced."""

    class Session:
        def stop(self): ...

    def start_spark(**options):
        assert options == {"master": "yarn", "workers": 3, "settings": {"spark.a": "b=c"}}
        return Session()

    def advise(*_, measure, **options):
        assert measure
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr("sparkwright.spark.command_line.start_spark", start_spark)
    for name, value in (("advise", advise), ("lenet", dict), ("digits", lambda *_, **__: None)):
        monkeypatch.setattr(command, name, value)
    given = "--master yarn --workers 3 --conf spark.a=b=c"
    return command.main([*given.split(), *arguments])


def test_command_prints_advice_and_writes_json_without_addresses(
    measured, monkeypatch, tmp_path, capsys
):
    path = tmp_path / "report.json"
    assert called(measured, monkeypatch, "--output", str(path)) == 0
    assert capsys.readouterr().out.rstrip() == str(measured)
    assert "example.org" not in path.read_text()
    assert json.loads(path.read_text()) == json.loads(json.dumps(measured.to_dict()))
    assert called(NetworkError("no port"), monkeypatch) == 1
    assert "no port" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--conf", "spark.a"])
    assert "write NAME=VALUE. Received: 'spark.a'." in capsys.readouterr().err


def test_data_is_held_in_memory_up_to_an_example_limit():
    many = sw.DataSet(np.zeros((20_010, 1), np.float32), np.zeros(20_010, np.int32))
    assert len(runs_of._in_memory(many)) == 20_000
    with pytest.raises(ConfigurationError, match="`data` must be a DataSet"):
        runs_of._in_memory([1, 2])


@cases(
    "message, options",
    ("`workers` is not known", {"workers": None}),
    ("`bandwidth_bytes_per_s` must be", {"bandwidth_bytes_per_s": -1}),
    ("`latency_s` must be", {"latency_s": 0}),
    ("`step_s` must be", {"step_s": -1}),
    ("`data` must be", {"data": "many"}),
    ("`measure` must be", {"measure": [0]}),
    ("`measure` needs a session", {"measure": True}),
)
def test_invalid_arguments_raise(message, options):
    with pytest.raises(ConfigurationError, match=message):
        sw.advise(1000, **{"workers": 2, "step_s": 0.1, **options})


def test_a_number_of_parameters_is_a_network_with_adam():
    found = sw.advise(25_010_000, workers=2, step_s=0.6, bandwidth_bytes_per_s=1.25e8)
    assert (found.load.vector_bytes, found.load.updater_bytes) == (100_040_000, 200_080_000)
    assert found.sources == ()
    assert isinstance(found.master, sw.ParameterAveragingTrainingMaster)
    assumed = sw.advise(1000, 20_001, workers=2, step_s=0.1)
    assert assumed.sources == (
        "Network: assumed; give `bandwidth_bytes_per_s`, or `spark` to measure it.",
    )
    assert assumed.plan.rows == (10_001, 10_000)
    assert assumed.epoch_s == pytest.approx(626 * 0.1, rel=0.1)
    unknown = sw.advise(1000, workers=2)
    assert (unknown.pays, unknown.alternatives, unknown.fits) == ("unknown", (), True)
    assert unknown.reason.startswith("Give a network and `step_s`")


def test_a_networks_sizes_are_read_from_keras():
    found = sw.advise(sw.networks.lenet(), workers=2, step_s=0.01)
    assert (found.load.vector_bytes, found.load.updater_bytes) == (1_724_320, 3_448_640)
    assert sw.advise(lenet_spec(), workers=2, step_s=0.01).alternatives == found.alternatives
    with pytest.raises(ConfigurationError, match="`network` must be a SparkNetwork"):
        sw.advise("lenet", workers=2, step_s=0.01)
