"""The data of a run on Spark, as the options of `fit` weigh and split it; lazily."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sparkwright.data import DataSet, DistributedDataSet
from sparkwright.data.from_spark import from_features_and_label
from sparkwright.data.loss_weights import weighted, weighted_by_class
from sparkwright.errors import ConfigurationError
from sparkwright.runs.fit_options import CheckedOptions, check_single_output, weighted_parts


def fit_parts(
    data: Any,
    options: CheckedOptions,
    *,
    model: Any,
    seed: int,
    distribute: Callable[[Any, str], DistributedDataSet],
) -> tuple[DistributedDataSet, DistributedDataSet | None]:
    """What is trained and what validates.

    Args:
        data: as `fit` takes it.
        options: as `checked_options` returned them.
        model: the keras.Model.
        seed: of the split.
        distribute: makes a DistributedDataSet of data; told the name of the argument.

    Raises:
        ConfigurationError: if an option does not suit the network or the data.
        DataError: if the data cannot be used.
    """
    validation, weights = options["validation"], options["sample_weight"]
    if isinstance(data, DataSet):
        training, held_out = weighted_parts(model, data, None, options)
        validation = validation if held_out is None else held_out
        train = distribute(training, "data")
    else:
        train = _weighted_train(data, weights, distribute)
        if share := options["validation_split"]:
            train, validation = train.random_split([1 - share, share], seed=seed)
        if (by_class := options["class_weight"]) is not None:
            check_single_output(model)
            train = train.map_chunks(
                partial(weighted_by_class, class_weight=by_class), step=f"class_weight {by_class}"
            )
    return train, None if validation is None else distribute(validation, "validation")


def _weighted_train(
    data: Any, weights: Any, distribute: Callable[[Any, str], DistributedDataSet]
) -> DistributedDataSet:
    if weights is None:
        return distribute(data, "data")
    if not isinstance(weights, str):
        raise ConfigurationError(
            "`sample_weight` must be the name of a column, because the data is on Spark. Received: "
            f"{type(weights).__name__} {np.shape(weights)}. Put the weights into the data: "
            "`DataSet(weights=…)`, or `weights=…` of `from_csv` and the like."
        )
    from pyspark.sql import DataFrame

    if isinstance(data, DataFrame):
        return from_features_and_label(data, weights=weights)
    return distribute(data, "data").map_chunks(
        partial(weighted, sample_weight=weights), step=f"sample_weight {weights!r}"
    )
