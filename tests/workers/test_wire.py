import json
import os
import pickle
import threading
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays
from tests.cases import cases

import sparkwright as sw
from sparkwright import updates
from sparkwright.data import NormalizerChain, Standardize
from sparkwright.errors import NetworkError
from sparkwright.evaluation import AbstractEvaluation
from sparkwright.mesh.framing import Message
from sparkwright.networks import ModelDefinition
from sparkwright.runs.launching import settings_of
from sparkwright.timeline.clocks import ClockState
from sparkwright.timeline.spans import SpanBlock
from sparkwright.workers._wire import pack, unpack
from sparkwright.workers.inference import LossSum
from sparkwright.workers.requests import (
    Answer,
    Evaluating,
    InferRequest,
    Predicting,
    RoundRequest,
    TrainRequest,
)
from sparkwright.workers.work import Span


@dataclass(frozen=True)
class OwnEvaluation(AbstractEvaluation):
    name = "own"
    rows: int = 0

    def updated(self, labels, predictions, *, mask=None, records=None):
        return OwnEvaluation(self.rows + len(labels))

    def __add__(self, other):
        return OwnEvaluation(self.rows + other.rows)

    @property
    def examples(self):
        return self.rows

    def to_dict(self):
        return {"name": self.name, "rows": self.rows}

    @classmethod
    def from_dict(cls, values):
        return cls(values["rows"])

    def summary(self):
        return ""

    def _repr_html_(self):
        return ""

    def plot(self, *, axes=None): ...


LABELS, BOTH = [0, 1, 1, 0], [[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.875, 0.125]]
RECORDS = [[0, row] for row in range(4)]
PROTOTYPES = [
    sw.Evaluation(keep_errors=2),
    sw.EvaluationBinary(roc_thresholds=0),
    sw.CustomEvaluation(lambda labels, *_: {"n": len(labels)}, lambda a, b: {"n": a["n"] + b["n"]}),
    sw.ROC(),
    sw.ROC(thresholds=10),
    sw.ROCBinary(),
    sw.ROCMultiClass(),
    sw.RegressionEvaluation(),
    sw.EvaluationCalibration(),
    OwnEvaluation(),
]
USERS = sw.CustomEvaluation | OwnEvaluation
DEFINITION = ModelDefinition(name="m", config="{}", custom_objects=b"\x80code", parameters=3)
SPANS = SpanBlock.of_one(3, 1.5, 0.25)


def sent(value, *, own_code=False):
    """`value` as the other side of a socket gets it."""
    fields, payload = pack(value, own_code=own_code)
    content = bytearray(b"".join(bytes(memoryview(piece)) for piece in payload))
    fields = json.loads(json.dumps(fields))
    return unpack(Message(kind="x", fields=fields, payload=content), own_code=own_code)


SHARING = sw.masters.SharedTrainingMaster(
    seed=1,
    checkpoint=sw.masters.Checkpointing("/runs/7"),
    time_source=sw.masters.NtpClock(server="time.example"),
    residual_clipping=updates.ResidualClipping(),
)
COMMON = {"definition": DEFINITION, "run": "r", "shard": "/a"}
TRAIN = TrainRequest(
    **COMMON,
    controller=("10.0.0.1", 4040),
    secret=bytes(range(32)),
    listen_host="",
    validation="/b",
    consume=True,
    settings=settings_of(SHARING, epochs=2),
    times=(1.0, 2.0),
)
ROUND = RoundRequest(
    **COMMON,
    settings=settings_of(sw.masters.ParameterAveragingTrainingMaster(seed=1), epochs=1),
    epoch=1,
    share=Span(0, 1, 2, 3),
    first=True,
    iterations=9,
    vector=b"\x00\x01",
    extras=b"",
)


@cases(
    "request_",
    ROUND,
    *(
        replace(TRAIN, settings=settings_of(replace(SHARING, threshold=kind()), epochs=2))
        for kind in (updates.FixedThreshold, updates.AdaptiveThreshold, updates.TargetSparsity)
    ),
    ids=["round", "fixed", "adaptive", "target"],
)
def test_training_request_is_transferred_without_pickle(request_):
    found = sent(request_)
    assert found == request_
    assert type(found) is type(request_)
    assert not isinstance(found, RoundRequest) or type(found.share) is Span


def test_prediction_examples_are_transferred_without_pickle():
    data = sw.DataSet({"x": np.arange(6.0, dtype=np.float32).reshape(3, 2).T}, [0, 1])
    normalizer = NormalizerChain((Standardize.fit(data), Standardize.fit(data)))
    request = InferRequest(
        definition=DEFINITION,
        digest="d",
        columns=data.columns(),
        records=RECORDS,
        batch_size=2,
        what=Predicting(normalizer=normalizer),
    )
    found = sent(request)
    assert found.records == RECORDS
    assert found.what.normalizer == normalizer
    assert replace(found.what, normalizer=None) == Predicting()
    for name, array in request.columns.items():
        np.testing.assert_array_equal(found.columns[name], array)
        assert found.columns[name].flags.writeable
        assert found.columns[name].flags.aligned


def test_hooks_are_sent_as_one_pickle_allowed_only_in_a_request():
    shared = []
    hooks = (Hook(shared), Hook(shared))
    request = replace(TRAIN, settings=settings_of(replace(SHARING, hooks=hooks), epochs=2))
    found = sent(request, own_code=True).settings.master.hooks
    found[0].seen.append("a")
    assert found[1].seen == ["a"]
    with pytest.raises(TypeError, match=r"engine's own values only\. Received: Hook"):
        pack(request, own_code=False)


@cases("prototype", *PROTOTYPES, ids=lambda each: each.name)
def test_evaluations_are_updated_after_transfer(prototype):
    what = Evaluating(evaluations={"y": (prototype,)})
    single = isinstance(
        prototype, sw.ROC | sw.EvaluationBinary | sw.ROCBinary | sw.RegressionEvaluation
    )
    labels, scores = LABELS, [row[1:] for row in BOTH] if single else BOTH
    (there,) = sent(what, own_code=isinstance(prototype, USERS)).evaluations["y"]
    counted = there.updated(labels, scores, records=RECORDS)
    answer = sent(Answer(result=what.without_code({"y": (counted,)})))
    (found,) = what.with_code(answer.result)["y"]
    expected = prototype.updated(labels, scores, records=RECORDS)
    assert found == expected
    assert found + found == expected + expected
    assert isinstance(prototype, OwnEvaluation) or (
        (found + found).to_json() == (expected + expected).to_json()
    )


@cases(
    "result",
    *(LossSum(3.0, 1.5, 6.0, 3.0, np.arange(2.0)), {"y": np.arange(3.0)}, None),
    *(ClockState(wall_s=1.0, source="ntp"), (SPANS, ClockState(wall_s=1.0, source="system"))),
)
def test_results_are_transferred_without_pickle(result):
    found = sent(Answer(result=result, fields={"losses": [0.5, float("nan")]}, payload=b"ab"))
    np.testing.assert_equal(found.result, result)
    assert type(found.result) is type(result)
    np.testing.assert_equal(found.fields["losses"], [0.5, float("nan")])


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
nested = st.recursive(
    plain | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner)
    ),
    max_leaves=20,
)


@given(nested)
def test_plain_values_are_transferred_unchanged(value):
    found = sent(value)
    assert found == value
    assert type(found) is type(value)


@given(
    arrays.arrays(
        st.sampled_from(["<f4", ">f8", "?", "i1", "<u8", "<c8", "<U3", "S2", "<M8[s]"]),
        arrays.array_shapes(min_dims=0, min_side=0),
    )
)
def test_arrays_are_transferred_unchanged(array):
    found = sent({"a": array, "b": b"123"})["a"]
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)


def test_pickles_in_an_answer_are_rejected_and_not_loaded(tmp_path):
    made = tmp_path / "made"
    evil = pickle.dumps([Evil(made)])
    text = json.dumps([{"own": 0}, 0]).encode()
    payload = text + bytes(-len(text) % 16) + evil
    message = Message(kind="answer", fields={"sizes": [len(text), len(evil)]}, payload=payload)
    with pytest.raises(NetworkError, match="only a request may hold"):
        unpack(message, own_code=False)
    assert not made.exists()


@cases(
    "packed",
    {"data": ["subprocess", "Popen", {"args": "true"}]},
    {"data": ["os", "system", {}]},
    {"data": ["sparkwright.workers.pool", "TrainerPool", {"owner": 1}]},
    {"data": ["sparkwright.workers.pool", "os", {}]},
    {"data": ["sparkwright.no", "No", {}]},
    {"data": ["sparkwright.workers.work", "Span", {"owner": 1}]},
    {"array": [0, "O", [1]]},
    {"array": [0, "<f8", [7]]},
    {"array": [9, "<f8", [1]]},
    {"bytes": 9},
    {"own": 0},
    {"what": 1},
    {"tuple": [], "map": []},
    {},
    ids=json.dumps,
)
def test_malformed_values_are_rejected(packed):
    text = json.dumps([packed, None]).encode()
    payload = text + bytes(-len(text) % 16) + bytes(8)
    for sizes in ([len(text), 8], None, [], [-1], [99], ["2"], [2, 99]):
        message = Message(kind="x", fields={"sizes": sizes}, payload=payload)
        with pytest.raises(NetworkError, match="must be packed values"):
            unpack(message, own_code=True)


class Hook:
    def __init__(self, seen):
        self.seen = seen

    def pre_update(self, *_): ...

    def post_update(self, *_): ...


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_custom_repartitioner_stays_on_the_driver():
    class Locked:
        def __init__(self):
            self.lock = threading.Lock()

        def partitions(self, total, batch_size):
            return total // batch_size

    master = sw.masters.SharedTrainingMaster(seed=1, repartitioner=Locked())
    pack(settings_of(master, epochs=1), own_code=False)
