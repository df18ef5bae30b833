"""What a plan gives executors and driver holds what it is for, or is refused with the sum."""

import json
import math
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import sparkwright as sw
from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS
from sparkwright.spark._memory_plan import MemoryPlan, plan_memory
from sparkwright.spark.memory_parts import TRAINER_MIB, parse_mib

LENET = PRESETS["lenet"].make()
cores_and_trainers = st.sampled_from([(1, 1), (4, 1), (4, 4), (8, 2), (6, 3)])


def part(plan: MemoryPlan, name: str) -> int:
    return next(part.size_mib for part in plan.parts if part.name == name)


def test_yarn_example_of_deeplearning4j_produces_its_settings() -> None:
    plan = plan_memory(
        LENET,
        container="11g",
        executor_memory="4g",
        off_heap="5g",
        extra="1g",
        workers=4,
        cores=8,
        driver_memory="4g",
    )
    assert plan.overhead_mib == 6144
    assert plan.total_mib == 10 * 1024
    settings = plan.settings()
    assert settings["spark.executor.memory"] == "4096m"
    assert settings["spark.executor.memoryOverhead"] == "6144m"
    assert settings["spark.driver.memory"] == "4096m"
    assert settings["spark.executor.instances"] == "4"
    assert settings["spark.executor.cores"] == "8"
    assert settings["spark.cores.max"] == "32"
    assert settings["spark.task.cpus"] == "8"
    assert "10,240 MiB  requested of 11,264 MiB: 1,024 MiB free" in plan.describe()


def test_address_space_limit_is_not_set_and_the_reason_is_described() -> None:
    plan = plan_memory(LENET)
    assert "spark.executor.pyspark.memory" not in plan.settings()
    assert "RLIMIT_AS" in plan.describe()


@given(cores_and_trainers, st.integers(1, 300), st.integers(1, 50_000_000))
def test_all_requested_memory_is_accounted_for(
    split: tuple[int, int], workers: int, parameters: int
) -> None:
    cores, trainers = split
    plan = plan_memory(parameters, workers=workers, cores=cores, trainers=trainers)
    assert plan.total_mib == sum(found.size_mib for found in plan.parts)
    assert plan.driver_total_mib == sum(found.size_mib for found in plan.driver_parts)
    assert part(plan, "trainers") >= trainers * (TRAINER_MIB + 4 * parameters // 2**20)
    slots = int(plan.settings()["spark.executor.cores"]) // int(plan.settings()["spark.task.cpus"])
    assert slots == trainers


@given(st.integers(1, 50_000_000), st.integers(1, 20_000))
def test_plan_fits_its_container_or_is_rejected(parameters: int, container: int) -> None:
    needed = plan_memory(parameters).total_mib
    if container < needed:
        with pytest.raises(ConfigurationError, match=rf"= {needed:,} MiB, {needed - container:,}"):
            plan_memory(parameters, container=container, executor_memory="1g")
    else:
        plan = plan_memory(parameters, container=container, executor_memory="1g")
        assert plan.total_mib <= container


@given(cores_and_trainers, st.booleans(), st.none() | st.just("300m"))
def test_plan_round_trips_through_json(
    split: tuple[int, int], limited: bool, data: str | None
) -> None:
    cores, trainers = split
    limit = "64g" if limited else None
    plan = plan_memory(LENET, container=limit, cores=cores, trainers=trainers, data=data)
    assert MemoryPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_printed_sum_adds_up() -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan_memory(25_000_000, container="4g", cores=4, trainers=4)
    terms, total = re.findall(r"needed are (.*) = ([\d,]+) MiB", str(caught.value))[0]
    sums = (re.sub(r"\(.*?\)|,", "", term) for term in terms.split(" + "))
    products = [[int(factor) for factor in term.split("x")] for term in sums]
    assert sum(p[0] * (p[1] if len(p) > 1 else 1) for p in products) == int(total.replace(",", ""))
    assert "fewer `trainers` than 4" in str(caught.value)


def test_command_and_settings_agree() -> None:
    plan = plan_memory(LENET, workers=3, cores=4, trainers=2)
    words = shlex.split(plan.spark_submit("train.py --epochs 5", master="k8s://https://host:443"))
    given = dict(word.split("=", 1) for word in words if word.startswith("spark."))
    assert given == plan.settings()
    assert shlex.join(words[:3]) == "spark-submit --master k8s://https://host:443"
    assert words[-3:] == ["train.py", "--epochs", "5"]
    assert plan.arguments["settings"] == plan.settings()


def test_trainer_memory_holds_network_minibatch_and_state_vectors() -> None:
    vector = 4 * 431_080
    state = 3 * vector
    outputs = sum(math.prod(row.output_shape or ()) for row in LENET.analysis.rows)
    sizes = [vector, vector, 2 * vector, 512 * 2 * 4 * outputs]
    averaged = sw.ParameterAveragingTrainingMaster
    for kind, options, exchange in (
        (averaged, {}, 5 * state),
        (averaged, {"updater": "reset"}, 5 * vector),
        (averaged, {"updater": "reset", "exchange_precision": "int8"}, 6 * vector),
        (averaged, {"updater": "reset", "averaging_delay": 1}, 6 * vector),
        (sw.SharedTrainingMaster, {}, 4 * state + 2 * vector),
    ):
        mib = sum(-(-size // 2**20) for size in (*sizes, exchange))
        master = kind(batch_size_per_worker=512, **options)
        assert part(plan_memory(LENET, master=master), "trainers") == TRAINER_MIB + mib


@pytest.mark.parametrize(
    ("parameters", "master", "peak_mib"),
    [
        (5_001_933, sw.ParameterAveragingTrainingMaster(), 987),
        (25_010_001, sw.ParameterAveragingTrainingMaster(), 2_417),
        (25_010_001, sw.SharedTrainingMaster(), 2_319),
    ],
)
def test_measured_trainer_memory_is_planned(parameters: int, master: Any, peak_mib: int) -> None:
    planned = part(plan_memory(parameters, master=master), "trainers")
    assert peak_mib <= planned <= 1.1 * peak_mib


def test_custom_layer_model_is_sized_by_its_variables_and_outputs() -> None:
    import keras

    class Own(keras.layers.Dense):
        pass

    def trainers(kind: Any) -> int:
        model = keras.Sequential([keras.Input((1000,)), *(kind(1000) for _ in range(3))])
        model.compile("adam", "mse")
        return part(plan_memory(model), "trainers")

    assert 0 <= trainers(Own) - trainers(keras.layers.Dense) <= 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"container": "much"}, "`container` must be an amount of memory"),
        ({"executor_memory": 0}, "`executor_memory` must be an amount of memory"),
        ({"off_heap": "200m"}, r"`off_heap` is too small.*\(trainers\)"),
        ({"extra": "200m"}, r"`extra` is too small.*\(JVM outside its heap\)"),
        ({"cores": 3, "trainers": 2}, "`cores` must be a multiple of `trainers`"),
        ({"trainers": 0}, "`trainers` must be an integer"),
        ({"workers": 0}, "`workers` must be an integer"),
        ({"driver_container": "1g"}, "`driver_container` is too small"),
        ({"model": "lenet"}, "`model` must be a built Keras model"),
        ({"model": 0}, "`model` must be a built Keras model"),
    ],
)
def test_invalid_values_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_memory(options.pop("model", LENET), **options)


def test_plan_that_does_not_fit_cannot_be_constructed_directly() -> None:
    plan = plan_memory(LENET)
    with pytest.raises(ConfigurationError, match="room given beyond"):
        replace(plan, container_mib=plan.total_mib, overhead_mib=plan.overhead_mib + 1)
    with pytest.raises(ConfigurationError, match="a memory plan has"):
        MemoryPlan.from_dict({"name": "MemoryPlan"})


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        *(("1g", 1024), ("1024", 1024), ("2T", 2 * 1024**2), ("1.5 GiB", 1536), ("1k", 1)),
        *(("11GB", 11264), ("1073741824b", 1024), ("1 p", 1024**3)),
    ],
)
def test_amounts_are_parsed_as_by_spark(text: str, mib: int) -> None:
    assert parse_mib("container", text) == mib


def test_heap_defaults_to_a_quarter_of_the_container() -> None:
    heaps = [plan_memory(LENET, container=size).heap_mib for size in ("12g", "3g", None)]
    assert heaps == [3 * 1024, 1024, 1024]


def test_averages_through_spark_need_a_larger_heap_of_the_driver() -> None:
    """The case that hung: 48.8 million parameters, SGD, two workers."""
    options: dict[str, Any] = {"averaging_frequency": 1, "updater": "reset"}
    ring, spark = (
        sw.ParameterAveragingTrainingMaster(communication=communication, **options)
        for communication in ("ring", "spark")
    )
    assert plan_memory(48_800_000, master=ring).driver_heap_mib == 1024
    assert 1800 < plan_memory(48_800_000, master=spark).driver_heap_mib < 1900
    assert plan_memory(48_800_000, master=spark, driver_memory="3g").driver_heap_mib == 3072
    assert plan_memory(1_000_000, master=spark).driver_heap_mib == 1024


def test_mapped_data_counts_toward_trainer_memory() -> None:
    plan, more = plan_memory(LENET), plan_memory(LENET, data="300m")
    assert more.overhead_mib == plan.overhead_mib + 300
