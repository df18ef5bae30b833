"""The arguments of `fit` and `start`: their declaration, documentation and validation."""

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, TypeVar, get_type_hints

import numpy as np

from sparkwright.data import DataSet, DistributedDataSet, LocalData, TfData
from sparkwright.data.classes import weighted, weighted_by_class
from sparkwright.data.frames import FrameColumns, check_validation_columns, columns_of_frame
from sparkwright.errors import ConfigurationError
from sparkwright.masters import Histograms
from sparkwright.networks.signature import output_names
from sparkwright.options import check_count, check_flag
from sparkwright.trackers import trackers_for_run

from .callbacks import checked_callbacks
from .names import check_name

F = TypeVar("F", bound=Callable[..., Any])


class FitOptions(TypedDict, total=False):
    """Options of `fit`, `start` and `fit_paths`, in addition to the data; all are optional.

    Attributes:
        epochs: passes over the data, counted from epoch 0 even with `resume` or `initial_epoch`;
            default None: 1.
        label: column or columns of a pandas or Spark DataFrame to predict; text becomes classes.
            Default None: the column `label` if it exists.
        features: columns of a DataFrame to use as features; several inputs as {input: columns}.
            Default None: the column `features` in Spark if it exists, else all columns except the
            label and the weights.
        validation: data for validation after each epoch, of the same types as the data; default
            None.
        resume: URL of a checkpoint to resume from, or of a folder of checkpoints to use the newest.
            Network, data and workers must match. Default None: begin with the model as it is.
        display: show progress: a live panel in notebooks, elsewhere a line per epoch on standard
            output. False: neither. Default None: show it.
        name: the run's name, one line of at most 80 characters; a number is appended if the session
            already has this name. Default None: a random adjective and noun such as "brisk-heron".
        callbacks: Keras callbacks, such as `keras.callbacks.EarlyStopping`, called on the driver
            between epochs; default None.
        callback_frequency: also call their minibatch methods, after every n-th averaging of an
            epoch, while the workers wait; default None: never.
        class_weight: class -> loss weight of its examples, for networks with one output; missing
            classes weigh 1. Multiplied with `sample_weight`. Default None.
        sample_weight: loss weight of each example: an array (n,), or (n, time) for one sequence
            output; output name -> such an array; or the name of a numeric column: of a DataFrame,
            or an input of the data that the network does not use. Arrays need in-memory data. They
            are multiplied with the weights of the data. Default None.
        validation_split: fraction of the examples, in [0, 1), to use as validation data: the last
            ones of in-memory data, as in Keras; of data on Spark approximately this fraction,
            drawn with the run's seed. Default 0.0.
        steps_per_epoch: minibatches per epoch, summed over the workers; the next epoch continues
            where this one ended. Default None: the training master's value, else all examples.
        initial_epoch: the epoch to begin with, from 0 (default): numbers the epochs of the history,
            callbacks and shuffles.
        shuffle: visit the examples in a new order in each epoch; default None: the training
            master's value, which is True by default.
        record: store the run, see `RunStore`; default None: True unless the environment variable
            `SPARKWRIGHT_RUNS` is "off".
        histograms: histograms of weights, updates and activations that a worker takes during
            training; default None: only on request. See `Histograms`, `run.histograms` and
            `run.request_histograms()`.
        log_to: trackers that receive parameters and metrics during training: a list of trackers of
            `sparkwright.trackers` and of modules with `log`, such as `wandb`. Default None: none.
        hyperparameters: name -> JSON-serializable value: the hyperparameters of this run, stored
            with it and sent to trackers. They do not change training. Default None: none.
    """

    epochs: int | None
    label: str | Sequence[str] | None
    features: Sequence[str] | Mapping[str, Sequence[str]] | None
    validation: Any | None
    resume: str | None
    display: bool | None
    name: str | None
    callbacks: Any | None
    callback_frequency: int | None
    class_weight: Mapping[int, float] | None
    sample_weight: Any | None
    validation_split: float
    steps_per_epoch: int | None
    initial_epoch: int
    shuffle: bool | None
    record: bool | None
    histograms: Histograms | None
    log_to: Any | None
    hyperparameters: Mapping[str, Any] | None


# All validated options; see `checked_options`.
CheckedOptions = Mapping[str, Any]
_DEFAULTS = {
    **dict.fromkeys(get_type_hints(FitOptions)),
    "validation_split": 0.0,
    "initial_epoch": 0,
}
# Keras arguments and their equivalents here.
_ELSEWHERE = {
    "labels": "`label` for columns of a DataFrame, and `fit(x, y)` for arrays",
    "batch_size": "`batch_size_per_worker` of the training master",
    "validation_data": "`validation`",
    "validation_steps": "`validation` with fewer examples; all of them are used",
    "validation_batch_size": "`batch_size_per_worker` of the training master, for both",
    "validation_freq": "`validation`, which follows each epoch",
    "x": "the first argument, `fit(x, y)`",
    "early_stopping": "`callbacks=[keras.callbacks.EarlyStopping(…)]`",
    "verbose": "`display`",
}


def takes_fit_options(method: F) -> F:
    """Set the signature of `method(…, **options: Unpack[FitOptions])` to name all options."""
    signature = inspect.signature(method)
    kinds = get_type_hints(FitOptions)
    given = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[name]
        )
        for name, default in _DEFAULTS.items()
    ]
    method.__signature__ = signature.replace(parameters=[*given, *options])  # pyright: ignore
    return method


def checked_options(options: Mapping[str, Any]) -> CheckedOptions:
    """Validate the options and fill in the defaults.

    Raises:
        TypeError: for an unknown name.
        ConfigurationError: if a value or a combination of values is invalid.
    """
    for name in options:
        if name not in _DEFAULTS:
            instead = f" Use {_ELSEWHERE[name]}." if name in _ELSEWHERE else ""
            raise TypeError(
                f"`fit` and `start` take {', '.join(_DEFAULTS)}. Received: {name}=….{instead}"
            )
    found: dict[str, Any] = {**_DEFAULTS, **options}
    split = found["validation_split"]
    check_name(found["name"])
    if not (found["histograms"] is None or isinstance(found["histograms"], Histograms)):
        raise ConfigurationError(
            "`histograms` must be a Histograms or None. Received: "
            f"histograms={found['histograms']!r:.200}."
        )
    check_count("epochs", found["epochs"], optional=True)
    check_count("callback_frequency", found["callback_frequency"], optional=True)
    check_count("steps_per_epoch", found["steps_per_epoch"], optional=True)
    check_count("initial_epoch", found["initial_epoch"], minimum=0)
    for name in ("shuffle", "record"):
        if found[name] is not None:
            check_flag(name, found[name])
    if not (isinstance(split, int | float) and 0 <= split < 1):
        raise ConfigurationError(
            "`validation_split` must be a number from 0 to below 1. Received: "
            f"validation_split={split!r}."
        )
    if split and found["validation"] is not None:
        raise ConfigurationError(
            "`validation` and `validation_split` exclude each other. Received: "
            f"validation_split={split!r} beside validation data. Leave one of them out."
        )
    if found["resume"] is not None and found["initial_epoch"]:
        raise ConfigurationError(
            "a checkpoint has its epoch, so `initial_epoch` goes without `resume`. Received: "
            f"initial_epoch={found['initial_epoch']}. Leave it out."
        )
    by_averaging = found["callback_frequency"] is not None
    found["callbacks"] = checked_callbacks(
        found["callbacks"],
        by_averaging=by_averaging,
        validates=found["validation"] is not None or split > 0,
    )
    found["log_to"] = trackers_for_run(found["log_to"] or ())
    _check_hyperparameters(found["hyperparameters"])
    if found["class_weight"] is not None:
        _check_class_weight(found["class_weight"])
    return found


def training_and_validation(
    model: Any, data: Any, options: CheckedOptions, take: Callable[..., Any], *, seed: int = 0
) -> tuple[Any, Any, Any]:
    """Return the result of `take`, and the weighted training and validation data.

    Args:
        model: the network.
        data: the data passed to `fit`.
        options: the options of `fit`.
        take: data, name of the option, `chosen` columns and `schema` of a DataFrame -> LocalData or
            DistributedDataSet.
        seed: seed of the random split.

    Raises:
        ConfigurationError: if an option does not match the network or the data.
        DataError: if columns are missing, or weights do not match the data.
    """
    chosen, options = _frame_columns(model, options, is_frame=columns_of_frame(data) is not None)
    taken = data if isinstance(data, TfData) else take(data, "data", chosen=chosen, schema=None)
    schema, validation = getattr(taken, "schema", None), options["validation"]
    if validation is not None:
        check_validation_columns(validation, schema)
        columns = chosen if schema is None else None
        validation = take(validation, "validation", chosen=columns, schema=schema)
    train, validation = (
        each.data if isinstance(each, LocalData) else each for each in (taken, validation)
    )
    return taken, *_weighted_parts(model, train, validation, options, seed=seed)


def _frame_columns(
    model: Any, options: CheckedOptions, *, is_frame: bool
) -> tuple[FrameColumns, CheckedOptions]:
    """Return the columns to train on, and the options without those that name columns."""
    named = {name: options[name] for name in ("label", "features") if options[name] is not None}
    if named and not is_frame:
        raise ConfigurationError(
            "`label` and `features` name columns of a DataFrame. Received: "
            f"{', '.join(f'{name}={value!r}' for name, value in named.items())} beside other data. "
            "Leave them out; labels of arrays go beside the features: `fit(x, y)`."
        )
    if not is_frame:
        return FrameColumns(), options
    weights = options["sample_weight"]
    column = weights if isinstance(weights, str) else None
    has_loss = getattr(model, "_compile_loss", None) is not None
    chosen = FrameColumns(**named, weights=column, needs_label=has_loss)
    return chosen, {**options, "sample_weight": None if column else weights}


def _weighted_parts(
    model: Any, data: Any, validation: Any, options: CheckedOptions, *, seed: int
) -> tuple[Any, Any]:
    """Return training and validation data, weighted according to `options`."""
    weights, share, by_class = (
        options[name] for name in ("sample_weight", "validation_split", "class_weight")
    )
    if isinstance(data, TfData):
        if weights is None and not share and by_class is None:
            return data, validation
        raise ConfigurationError(
            "`sample_weight`, `class_weight` and `validation_split` are for data whose examples "
            "are stored. Received: a `TfData`. Let its function give (x, y, weights), and pass "
            "`validation`."
        )
    if weights is not None:
        if isinstance(data, DistributedDataSet) and not isinstance(weights, str):
            raise ConfigurationError(
                "`sample_weight` must be the name of a column if the data is on Spark. Received: "
                f"{type(weights).__name__} {np.shape(weights)}. Put the weights into the data: "
                "`DataSet(weights=…)`, or `weights=…` of `from_csv` and the like."
            )
        data = _mapped(data, partial(weighted, sample_weight=weights), f"weights {weights!r:.99}")
    if share and isinstance(data, DistributedDataSet):
        data, validation = data.random_split([1 - share, share], seed=seed)
    elif share:
        edge = math.floor(len(data) * (1 - share))  # the last examples, as in Keras
        if not 0 < edge < len(data):
            raise ConfigurationError(
                "`validation_split` must leave examples on both sides. Received: "
                f"validation_split={share!r} of {len(data)} examples."
            )
        data, validation = data.take(slice(edge)), data.take(slice(edge, None))
    if by_class is not None:
        if len(names := output_names(model)) != 1:
            raise ConfigurationError(
                "`class_weight` is for networks with one output. Received: a network with "
                f"{', '.join(map(repr, names))}. Use `sample_weight={{output: weights}}`."
            )
        function = partial(weighted_by_class, class_weight=by_class)
        data = _mapped(data, function, f"class_weight {by_class}")
    return data, validation


def _mapped(data: Any, function: Callable[[DataSet], DataSet], step: str) -> Any:
    """Apply `function` now to in-memory data, or on read to data on Spark."""
    if isinstance(data, DistributedDataSet):
        return data.map_chunks(function, step=step)
    return function(data)


def _check_hyperparameters(given: Any) -> None:
    try:
        json.dumps(given)
        is_valid = given is None or (
            isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
        )
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ConfigurationError(
            "`hyperparameters` must map names to values that are JSON. Received: "
            f"hyperparameters={given!r:.200}."
        )


def _check_class_weight(given: Any) -> None:
    if not isinstance(given, Mapping) or not all(
        isinstance(number, int | np.integer)
        and number >= 0
        and isinstance(weight, int | float | np.number)
        and 0 <= float(weight) < math.inf
        for number, weight in given.items()  # pyright: ignore[reportUnknownVariableType]
    ):
        raise ConfigurationError(
            "`class_weight` must map class numbers to weights of at least 0, such as "
            f"{{0: 1.0, 1: 5.0}}. Received: class_weight={given!r:.200}."
        )
