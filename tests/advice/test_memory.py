import re

import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.networks import PRESETS
from sparkwright.networks.estimate import training_sizes
from sparkwright.spark.memory_parts import TRAINER_MIB, parse_mib

LENET = PRESETS["lenet"].make()
cores_and_trainers = st.sampled_from([(1, 1), (4, 1), (4, 4), (8, 2), (6, 3)])


def plan_memory(model, **options):
    found = sw.advise(model, step_s=1, **{"workers": 2, **options}).memory
    assert found is not None
    return found


def part(plan, name):
    return next(part.size_mib for part in plan.parts if part.name == name)


def test_settings_hold_heap_overhead_cores_and_slots():
    found = sw.advise(
        25_000_000,
        container="11g",
        executor_memory="4g",
        workers=8,
        cores=8,
        trainers=2,
        driver_memory="4g",
    )
    plan = found.memory
    assert plan.settings() == {
        "spark.executor.instances": "4",
        "spark.executor.cores": "8",
        "spark.cores.max": "32",
        "spark.task.cpus": "4",
        "spark.executor.memory": "4096m",
        "spark.executor.memoryOverhead": f"{plan.overhead_mib}m",
        "spark.driver.memory": "4096m",
        "spark.driver.memoryOverhead": f"{plan.driver_total_mib - 4096}m",
    }
    assert plan.arguments["settings"] == plan.settings()
    assert found.fits
    text = f"Memory of each executor with 2 trainers: {plan.total_mib:,} MiB of 11,264 MiB"
    assert text in str(found)


@given(cores_and_trainers, st.integers(1, 300), st.integers(1, 50_000_000))
def test_all_requested_memory_is_accounted_for(split, workers, parameters):
    cores, trainers = split
    plan = plan_memory(parameters, workers=workers, cores=cores, trainers=trainers)
    assert plan.total_mib == sum(found.size_mib for found in plan.parts)
    assert plan.driver_total_mib == sum(found.size_mib for found in plan.driver_parts)
    assert part(plan, "trainers") >= trainers * (TRAINER_MIB + 4 * parameters // 2**20)
    assert (plan.executors - 1) * trainers < workers <= plan.executors * trainers


@given(st.integers(1, 50_000_000), st.integers(1, 20_000))
def test_a_container_that_is_too_small_is_reported_with_the_sum(parameters, container):
    needed = plan_memory(parameters).total_mib
    found = sw.advise(parameters, workers=2, container=container, executor_memory="1g")
    assert found.fits == (container >= needed)
    if not found.fits:
        assert f"= {needed:,} MiB, {needed - container:,} MiB more" in found.reason


def test_printed_sum_adds_up():
    problem = plan_memory(25_000_000, container="4g", cores=4, trainers=4).problem
    terms, total = re.findall(r"needs (.*) = ([\d,]+) MiB", problem)[0]
    sums = (re.sub(r"\(.*?\)|,", "", term) for term in terms.split(" + "))
    products = [[int(factor) for factor in term.split("x")] for term in sums]
    assert sum(p[0] * (p[1] if len(p) > 1 else 1) for p in products) == int(total.replace(",", ""))
    assert "fewer `trainers` than 4" in problem


def test_trainer_memory_holds_network_minibatch_and_state_vectors():
    sizes = training_sizes(LENET, batch_size=512)
    assert sizes[:3] == (4 * 431_080, 4 * 431_080, 8 * 431_080)
    assert sizes.minibatch == 512 * training_sizes(LENET, batch_size=1).minibatch
    state = sizes.parameters + sizes.optimizer
    averaged, vector = sw.ParameterAveragingTrainingMaster, sizes.parameters
    for kind, options, exchange in (
        (averaged, {}, 5 * state),
        (averaged, {"updater": "reset"}, 5 * vector),
        (
            averaged,
            {"updater": "reset", "exchange_precision": "int8"},
            5 * vector + sizes.trainable,
        ),
        (averaged, {"updater": "reset", "averaging_delay": 1}, 6 * vector),
        (sw.SharedTrainingMaster, {}, 4 * state + 2 * sizes.trainable),
    ):
        mib = sum(-(-size // 2**20) for size in (*sizes, exchange))
        master = kind(batch_size_per_worker=512, **options)
        assert part(plan_memory(LENET, master=master), "trainers") == TRAINER_MIB + mib


@cases(
    "parameters, master, peak_mib",
    (5_001_933, sw.ParameterAveragingTrainingMaster(), 987),
    (25_010_001, sw.ParameterAveragingTrainingMaster(), 2_417),
    (25_010_001, sw.SharedTrainingMaster(), 2_319),
)
def test_measured_trainer_memory_is_planned(parameters, master, peak_mib):
    planned = part(plan_memory(parameters, master=master), "trainers")
    assert peak_mib <= planned <= 1.1 * peak_mib


def test_custom_layer_model_is_sized_by_its_variables_and_outputs():
    import keras

    class Own(keras.layers.Dense):
        pass

    def trainers(kind):
        model = keras.Sequential([keras.Input((1000,)), *(kind(1000) for _ in range(3))])
        model.compile("adam", "mse")
        return part(plan_memory(model), "trainers")

    assert 0 <= trainers(Own) - trainers(keras.layers.Dense) <= 5


@cases(
    "options, message",
    ({"container": "much"}, "`container` must be an amount of memory"),
    ({"executor_memory": 0}, "`executor_memory` must be an amount of memory"),
    ({"cores": 3, "trainers": 2}, "`cores` must be a multiple of `trainers`"),
    ({"trainers": 0}, "`trainers` must be an integer"),
    ({"workers": -1}, "`workers` must be an integer"),
    ({"model": 0}, "`network` must be a built"),
)
def test_invalid_values_are_rejected(options, message):
    with pytest.raises(sw.ConfigurationError, match=message):
        plan_memory(options.pop("model", 1000), **options)


@cases(
    "text, mib",
    *(("1g", 1024), ("1024", 1024), ("2T", 2 * 1024**2), ("1.5 GiB", 1536), ("1k", 1)),
    *(("11GB", 11264), ("1073741824b", 1024), ("1 p", 1024**3)),
)
def test_amounts_are_parsed_as_by_spark(text, mib):
    assert parse_mib("container", text) == mib


def test_heap_defaults_to_a_quarter_of_the_container():
    heaps = [plan_memory(LENET, container=size).heap_mib for size in ("12g", "3g", None)]
    assert heaps == [3 * 1024, 1024, 1024]


def test_parameters_pass_through_the_python_workers_with_communication_by_spark():
    """But in parts, so that no heap holds them."""
    options = {"averaging_frequency": 1, "updater": "reset"}
    ring, spark = (
        sw.ParameterAveragingTrainingMaster(communication=communication, **options)
        for communication in ("ring", "spark")
    )
    plans = [plan_memory(48_800_000, master=master) for master in (ring, spark)]
    sizes = [{part.name: part.each_mib for part in plan.parts}["Python workers"] for plan in plans]
    assert sizes[0] == 160
    assert 842 < sizes[1] < 1000  # measured: 842
    assert [plan.driver_heap_mib for plan in plans] == [1024, 1024]


def test_mapped_data_counts_toward_trainer_memory():
    plan, more = plan_memory(LENET), plan_memory(LENET, data_memory="300m")
    assert more.overhead_mib == plan.overhead_mib + 300
