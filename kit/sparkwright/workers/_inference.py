"""A trainer's part in evaluation and scoring: a shard through the network, in inference mode."""

import threading

import numpy as np

from sparkwright.errors import DataError
from sparkwright.evaluation import Evaluation

from ._batch_layout import output_names
from ._replica import Replica
from ._requests import Answer, EvaluateRequest
from ._shard import Shard


def run_inference(
    replica: Replica, shard: Shard, request: EvaluateRequest, gone: threading.Event
) -> Answer:
    """Evaluate or score `shard`; an empty one gives neutral counts.

    Raises:
        DataError: if the data has no labels, or does not fit the network.
    """
    if not shard.rows:
        return Answer(fields={"examples": 0, "loss_sum": 0.0, "evaluation": None})
    layout = replica.arrange(shard.columns)
    if not any(name.startswith("labels/") for name in shard.columns):
        raise DataError(
            f"`{request.what}` needs labels. Received: columns {sorted(shard.columns)}. Give the "
            "DataSet labels, or use the network for prediction."
        )
    outputs = output_names(replica.model)
    if request.what == "evaluation" and len(outputs) != 1:
        raise DataError(f"`evaluate` needs a network with one output. Received: outputs {outputs}.")
    loss_sum = 0.0
    evaluation: Evaluation | None = None
    for start in range(0, shard.rows, request.batch_size):
        if gone.is_set():
            break
        rows = slice(start, min(start + request.batch_size, shard.rows))
        block = {name: np.asarray(array[rows]) for name, array in shard.columns.items()}
        loss, predictions = replica.evaluate(layout, block)
        loss_sum += loss * (rows.stop - rows.start)
        if request.what == "evaluation":
            part = shard.dataset(rows)
            masks = list(part.labels_masks.values())
            found = Evaluation.from_predictions(
                next(iter(part.labels.values())),
                predictions[0],
                mask=masks[0] if masks else None,
                class_names=request.class_names,
            )
            evaluation = found if evaluation is None else evaluation + found
    return Answer(
        fields={
            "examples": shard.rows,
            "loss_sum": loss_sum,
            "evaluation": evaluation.to_dict() if evaluation is not None else None,
        }
    )
