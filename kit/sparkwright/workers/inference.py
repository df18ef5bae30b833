"""Evaluation, scoring and prediction in a trainer process."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet, Normalizer
from sparkwright.errors import DataError
from sparkwright.evaluation import AbstractEvaluation
from sparkwright.networks import ModelDefinition
from sparkwright.networks.signature import output_names

from ._batch_layout import BatchLayout
from ._replica import make_replica
from ._replica_base import Replica
from .metric_values import as_keras_logs
from .requests import Adapting, Evaluating, InferRequest, Predicting, Scoring

Array = NDArray[Any]
Evaluations = dict[str, tuple[AbstractEvaluation, ...]]


class LossSum(NamedTuple):
    """The summed loss of a set of examples, and the accumulators of the compiled metrics."""

    examples: float
    total: float  # sum over batches of the mean loss times the number of examples
    labels: float  # that count: examples, or their time steps
    of_labels: float  # sum over batches of the mean loss times the number of labels
    metrics: NDArray[np.float64]  # as of `Replica.metric_state`


def run_inference(replica: Replica, request: InferRequest, gone: threading.Event) -> Any:
    """Evaluate, score or predict, as `request.what` asks; stop early once `gone` is set."""
    has_labels = any(name.startswith("labels/") for name in request.columns)
    scores = isinstance(request.what, Scoring) and replica.own_test_step
    if not (has_labels or scores or isinstance(request.what, Predicting)):
        what = "an evaluation" if isinstance(request.what, Evaluating) else "a score"
        raise DataError(
            f"{what} needs labels. Received: columns {sorted(request.columns)}. Give the data "
            "labels, or use `predict`."
        )
    match request.what:
        case Evaluating() as what:
            return _evaluate(replica, request, what, gone)
        case Scoring() as what:
            return _score(replica, request, what, gone)
        case Predicting(normalizer=normalizer):
            outputs = _outputs(replica, request, gone)
            return _in_labels_units(outputs, normalizer, labels=())
        case Adapting():
            raise TypeError("layers are adapted without a replica")


def metric_values(
    definition: ModelDefinition, found: LossSum, layout: Mapping[str, Any]
) -> dict[str, float | Array]:
    """Return loss and compiled metrics by name, as Keras' `evaluate`, from the sums of all data."""
    replica = make_replica(definition)
    example = {name: np.zeros((1, *shape), kind) for name, (kind, shape) in layout.items()}
    replica.loss(BatchLayout(replica.model, example), example)  # creates the metrics
    loss = {"loss": found.of_labels / found.labels}
    return as_keras_logs(loss | replica.metric_results(found.metrics))


def _batches(
    request: InferRequest, columns: Mapping[str, Array], gone: threading.Event
) -> Iterator[dict[str, Array]]:
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, request.batch_size):
        if gone.is_set():
            return
        part = slice(start, start + request.batch_size)
        yield {name: array[part] for name, array in columns.items()}


def _score(
    replica: Replica, request: InferRequest, what: Scoring, gone: threading.Event
) -> LossSum | NDArray[np.float64]:
    layout = BatchLayout(replica.model, request.columns)
    batches = _batches(request, request.columns, gone)
    if what.each:
        losses = [replica.losses(layout, b, regularization=what.regularization) for b in batches]
        return np.concatenate(losses or [np.empty(0)]).astype(np.float64)
    sums = np.zeros(4)
    replica.model.reset_metrics()
    for batch in batches:
        loss, labels = replica.loss(layout, batch)
        rows = len(batch[layout.order[0]])
        if replica.averages_loss:
            sums += (rows, loss * rows, labels, loss * labels)
        else:
            sums += (rows, loss, rows, loss)
    examples, total, count, of_labels = sums.tolist()
    return LossSum(examples, total, count, of_labels, replica.metric_state())


def _outputs(replica: Replica, request: InferRequest, gone: threading.Event) -> dict[str, Array]:
    """Return output name -> (n, ...), ignoring labels, so that no loss is required."""
    columns = {n: a for n, a in request.columns.items() if n.startswith("features")}
    layout = BatchLayout(replica.model, columns)
    names = output_names(replica.model)
    found: list[list[Array]] = [[] for _ in names]
    for batch in _batches(request, columns, gone):
        for parts, output in zip(found, replica.predict(layout, batch), strict=True):
            # NumPy has no bfloat16.
            parts.append(output.astype(np.float32) if output.dtype.kind == "V" else output)
    return {name: np.concatenate(parts) for name, parts in zip(names, found, strict=True) if parts}


def _in_labels_units(
    outputs: dict[str, Array], normalizer: Normalizer | None, *, labels: Sequence[str]
) -> dict[str, Array]:
    """Convert outputs to the original units of their labels."""
    scaled = () if normalizer is None else normalizer.label_names
    if normalizer is None or not scaled or not outputs:
        return outputs
    known = [name for name in labels if name in scaled]
    pairs = _labels_of(list(outputs), labels if known or len(labels) > 1 else scaled)
    pairs = [(output, label) for output, label in pairs if label in scaled]
    is_told = known or len(outputs) == 1 or set(scaled) <= set(outputs)
    if not is_told or len(pairs) != len(scaled):
        raise DataError(
            "outputs can be converted to the units of their labels only if each has a label. "
            f"Received: outputs {list(outputs)}, normalized labels {list(scaled)}. Name outputs "
            "after their labels, or pass data with these labels."
        )
    reverted = normalizer.revert_labels({label: outputs[output] for output, label in pairs})
    return {**outputs, **{output: reverted[label] for output, label in pairs}}


def _evaluate(
    replica: Replica, request: InferRequest, what: Evaluating, gone: threading.Event
) -> Evaluations:
    data = DataSet.from_columns(request.columns)
    outputs = _in_labels_units(
        _outputs(replica, request, gone), what.normalizer, labels=list(data.labels)
    )
    labels = dict(_labels_of(output_names(replica.model), list(data.labels)))
    counted: Evaluations = {}
    for name, prototypes in what.evaluations.items():
        if name not in labels:
            raise DataError(
                f"an evaluation of output {name!r} needs its labels. Received: labels "
                f"{list(data.labels)}."
            )
        if name not in outputs:  # canceled
            continue
        counted[name] = tuple(
            prototype.updated(
                data.labels[labels[name]],
                outputs[name],
                mask=data.labels_masks.get(labels[name]),
                records=request.records,
            )
            for prototype in prototypes
        )
    return counted


def _labels_of(outputs: Sequence[str], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Pair outputs with labels by name; else, if there are as many, in order, as in training."""
    named = [(name, name) for name in labels if name in outputs]
    if named or len(outputs) != len(labels):
        return named
    return list(zip(outputs, labels, strict=True))
