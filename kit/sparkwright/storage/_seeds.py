"""The states of a model's random generators (Dropout and the like), which Keras does not save."""

from typing import Any

import numpy as np

from sparkwright.errors import DataError


def read_seeds(model: Any) -> list[list[int]]:
    """The state of each generator, in the model's own order."""
    return [np.asarray(state).ravel().tolist() for state in _states(model)]


def restore_seeds(model: Any, seeds: Any, url: str) -> None:
    """Put back what `read_seeds` gave.

    Args:
        model: built from the same description.
        seeds: of a file.
        url: of the file, for errors.

    Raises:
        DataError: if these are not the states of this model's generators; names `url`.
    """
    states = _states(model)
    values: list[Any] = []
    try:
        values = [np.asarray(seed, state.dtype) for seed, state in zip(seeds, states, strict=True)]
        fits = all(value.shape == s.shape for value, s in zip(values, states, strict=True))
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise DataError(
            f"a model's file must hold one state for each of its {len(states)} random generators. "
            f"Received: {url}, which does not. Save the model again."
        )
    for state, value in zip(states, values, strict=True):
        state.assign(value)


def _states(model: Any) -> list[Any]:
    known = {id(variable) for variable in (*model.weights, *model.metrics_variables)}
    return [variable for variable in model.variables if id(variable) not in known]
