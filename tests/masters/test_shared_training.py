import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.cases import cases

import sparkwright as sw
from sparkwright.masters import SharedTrainingMaster, TrainingMaster
from sparkwright.masters._shared_training import automatic_workers
from sparkwright.updates import AdaptiveThreshold, FixedThreshold, TargetSparsity, ThresholdState

Master = SharedTrainingMaster


class HalvingThreshold:
    def __init__(self, first=1.0):
        self.first = first

    def init(self):
        return ThresholdState(self.first)

    def update(self, state, *, sparsity):
        return ThresholdState(state.threshold / 2, sparsity)

    def to_dict(self):
        return {"name": "halving", "configuration": {"first": self.first}}


class Squares(HalvingThreshold):
    def to_dict(self):
        return {"root": self.first**0.5}

    @classmethod
    def from_dict(cls, settings):
        return cls(settings["root"] ** 2)


class Thirds:
    def partitions(self, total, batch_size):
        return 3


@cases(
    "options, text",
    ({"threshold": AdaptiveThreshold}, "an object with `init`, `update`, `to_dict`. Received"),
    ({"workers": 4, "workers_per_node": 2}, "workers_per_node=2, workers=4. Set one."),
)
def test_options_that_contradict_one_another_are_rejected(options, text):
    with pytest.raises(sw.ConfigurationError, match=text):
        Master(**options)


def test_a_threshold_and_a_repartitioner_may_be_the_users_own():
    master = Master(threshold=HalvingThreshold(), repartitioner=Thirds())
    assert isinstance(master.threshold, HalvingThreshold)
    assert isinstance(master.repartitioner, Thirds)
    settings = Master(repartitioner=Thirds()).to_dict()  # of which only the class is kept
    assert settings["repartitioner"] == {"name": f"{__name__}.Thirds", "configuration": {}}
    read = Master.from_dict(settings, allow=[f"{__name__}.Thirds"])
    assert isinstance(read.repartitioner, Thirds)


@cases("kind", HalvingThreshold, Squares)
def test_a_threshold_of_the_users_own_goes_through_json_if_it_is_allowed(kind):
    name, mine = f"{__name__}.{kind.__name__}", Master(threshold=kind(0.25))
    text, experiment = mine.to_json(), sw.Experiment(master=mine).to_json()
    found = [
        Master.from_json(text, allow=[name]),
        TrainingMaster.from_json(text, allow=[name]),
        Master.from_yaml(mine.to_yaml(), allow=[name]),
        sw.Experiment.from_json(experiment, allow=[name]).master,
    ]
    for master in found:
        assert isinstance(master, Master)
        assert type(master.threshold) is kind
        assert master.threshold.init() == ThresholdState(0.25)


@cases("allow", (), ["os.system"], __name__)
def test_a_class_that_is_not_allowed_is_not_imported(allow):
    text = Master(threshold=HalvingThreshold()).to_json()
    with pytest.raises(
        sw.ConfigurationError, match=rf"{__name__}\.HalvingThreshold.*from_json\(text, allow=\["
    ):
        Master.from_json(text, allow=allow)


@cases(
    "name, options, why",
    ("nowhere.Mine", {}, "No module named 'nowhere'"),
    (f"{__name__}.Nothing", {}, "no attribute 'Nothing'"),
    (f"{__name__}.HalvingThreshold", {"second": 1}, "unexpected keyword argument 'second'"),
    ("builtins.dict", {}, "must be an AdaptiveThreshold"),
)
def test_invalid_allowed_class_or_configuration_raises(name, options, why):
    settings = {"threshold": {"name": name, "configuration": options}}
    with pytest.raises(sw.ConfigurationError, match=why):
        Master.from_dict(settings, allow=[name])


@cases(
    "machine, workers",
    *(({"cores": cores}, n) for cores, n in ((1, 1), (7, 1), (8, 2), (15, 3), (24, 6), (96, 6))),
    *(({"cores": 64, "gpus": gpus}, gpus) for gpus in (1, 8)),
)
def test_a_machine_gets_a_worker_for_each_gpu_or_four_cores(machine, workers):
    assert automatic_workers(**machine) == workers


@given(
    executors=st.none() | st.integers(1, 50),
    cores=st.integers(1, 128),
    gpus=st.integers(0, 8),
    slots=st.none() | st.integers(1, 1000),
)
def test_automatic_workers_are_at_least_one_and_fit_into_the_slots(executors, cores, gpus, slots):
    found = Master().worker_count(
        slots=slots, executors=executors, cores_per_executor=cores, gpus_per_executor=gpus
    )
    assert found >= 1
    assert slots is None or found <= slots
    if executors is not None and slots is None:
        assert found == executors * automatic_workers(cores=cores, gpus=gpus)


def test_requested_workers_are_not_limited_to_the_slots():
    # Too many are refused later, with a message that says how to get more slots.
    assert Master(workers=7).worker_count(slots=2, executors=2) == 7
    assert Master(workers_per_node=3).worker_count(slots=2, executors=2) == 6
    assert Master(workers_per_node=3).worker_count(slots=8, executors=None) == 3
    # Within the driver all slots are used.
    assert Master().worker_count(slots=3, executors=None, cores_per_executor=3) == 3
    assert Master().worker_count(slots=None, executors=None) == 1


@given(rows=st.lists(st.integers(0, 500), max_size=6), batch_size=st.integers(1, 40))
def test_an_epoch_of_sharing_is_one_round(rows, batch_size):
    plan = Master(batch_size_per_worker=batch_size).plan(rows, epochs=3)
    assert (plan.kind, plan.epochs, plan.batch_size) == ("sharing", 3, batch_size)
    assert plan.rounds == (1 if any(rows) else 0)


def test_the_size_of_messages_is_estimated_from_the_threshold():
    def estimate(threshold):
        return round(4_000_000 * Master(threshold=threshold).exchange.density)

    assert estimate(AdaptiveThreshold()) == 40_000
    assert estimate(TargetSparsity(target=2e-3)) == 8_000
    assert estimate(FixedThreshold()) == 250_000  # a bitmap's, which nothing exceeds
    assert estimate(AdaptiveThreshold(max_sparsity=0.5)) == 250_000
    assert estimate(HalvingThreshold()) == 250_000


def test_work_is_dealt_out_in_pieces():
    rows = [1_600_000, 1_600_000]
    assert Master().minibatches_in_piece(rows) == 40
    assert Master(piece_minibatches=7).minibatches_in_piece(rows) == 7
    assert Master(repartitioner=sw.NoRepartitioner()).minibatches_in_piece(rows) == 200_000 // 32
