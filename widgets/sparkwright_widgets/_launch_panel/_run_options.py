"""What is chosen for a run: epochs, validation, early stopping. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkwright.masters import EarlyStopping
from sparkwright.options import Option

_EARLY = "End earlier"

RUN_OPTIONS = (
    Option(
        name="epochs",
        kind="int",
        default=5,
        minimum=1,
        help="Passes over the data.",
    ),
    Option(
        name="validate",
        kind="flag",
        default=True,
        label="Validate after each epoch",
        help="Measures the loss on data that is not trained on, to see overfitting.",
    ),
    Option(
        name="validate_on",
        kind="choice",
        choices=("validation", "test"),
        default="validation",
        label="Validate on",
        help="The part of the data. Scores of the test set that validates are not independent.",
    ),
    Option(
        name="patience",
        kind="int",
        default=None,
        minimum=1,
        optional=True,
        none_text="never",
        unit="evaluations",
        group=_EARLY,
        help="End after so many evaluations without improvement, with the best state.",
    ),
    Option(
        name="monitor",
        kind="text",
        default="loss",
        group=_EARLY,
        help="loss, or the name of a metric of the network, such as accuracy.",
    ),
    Option(
        name="max_seconds",
        kind="float",
        default=None,
        above=0,
        optional=True,
        none_text="no limit",
        label="Time limit",
        unit="s",
        group=_EARLY,
        help="End with the first averaging after so many seconds.",
    ),
    Option(
        name="target",
        kind="float",
        default=None,
        optional=True,
        none_text="none",
        group=_EARLY,
        help="End when the score is this good.",
    ),
)
_CONDITIONS = ("patience", "max_seconds", "target")


CHECKPOINT = Option(
    name="resume",
    kind="text",
    default=None,
    optional=True,
    none_text="none",
    label="URL of a checkpoint",
    help="Of one, or of a folder with several: then the newest counts.",
)


def early_stopping_of(
    values: Mapping[str, Any], given: EarlyStopping | None = None
) -> EarlyStopping | None:
    """What the values of the form mean; None if they hold no condition.

    Args:
        values: of the form.
        given: what the form was filled from, whose other options stay; default None.

    Raises:
        ConfigurationError: if they do not go together.
    """
    chosen = {name: values[name] for name in (*_CONDITIONS, "monitor")}
    hidden = given is not None and (given.max_epochs is not None or given.max_loss is not None)
    if all(chosen[name] is None for name in _CONDITIONS) and not hidden:
        return None
    return EarlyStopping(**chosen) if given is None else replace(given, **chosen)


def values_of(epochs: int, early_stopping: EarlyStopping | None) -> dict[str, Any]:
    """The values of the form for these choices."""
    values: dict[str, Any] = {option.name: option.default for option in RUN_OPTIONS}
    values["epochs"] = epochs
    if early_stopping is not None:
        for name in (*_CONDITIONS, "monitor"):
            values[name] = getattr(early_stopping, name)
    return values
