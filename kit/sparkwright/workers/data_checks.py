"""Checks on the driver, before a run, that data fits a network."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.data import DataSet, DistributedDataSet, LocalData
from sparkwright.errors import DataError
from sparkwright.networks.signature import signature_of

from ._batch_layout import BatchLayout
from ._column_checks import SPARSE, is_known_loss as is_known_loss, loss_name, losses_of


def check_data(model: Any, data: Any, validation: Any = None) -> None:
    """Raise if data does not fit the network.

    Of data on Spark, only the class names are checked, because nothing is read. Workers check
    their examples again.
    """
    for what, each in (("", data), ("validation data: ", validation)):
        try:
            known = each.data if isinstance(each, LocalData) else each
            if isinstance(known, DataSet):
                BatchLayout(model, known.columns(), training=True)
            if isinstance(each, (LocalData, DistributedDataSet)):
                _check_classes(model, each.class_names)
        except DataError as error:
            raise DataError(f"{what}{error}") from None


def _check_classes(model: Any, class_names: Mapping[str, Sequence[str]]) -> None:
    outputs = list(signature_of(model).outputs.items())
    losses = losses_of(getattr(model, "loss", None), [name for name, _ in outputs])
    for (name, (_, shape)), loss in zip(outputs, losses, strict=False):
        only = next(iter(class_names.values()), ()) if len(outputs) == 1 else ()
        classes = class_names.get(name, only)
        units = shape[-1] if shape else None
        if loss_name(loss) == SPARSE and units is not None and len(classes) > units:
            raise DataError(
                f"the output {name!r} must have one unit for each of the data's {len(classes)} "
                f"classes. Received: {units} units, classes {', '.join(classes)[:80]}. Give the "
                f"last layer {len(classes)} units, or check the labels."
            )
