"""Columns of a Spark DataFrame by their names, which Spark would read as SQL expressions."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sparkwright.errors import DataError

from .wording import listed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def quoted(name: str) -> str:
    """Quote a column name for Spark SQL, in which a full stop selects a field."""
    return "`" + name.replace("`", "``") + "`"


def addressed(frame: "DataFrame", names: Iterable[str]) -> "tuple[DataFrame, list[Column]]":
    """Return columns of a frame, vectors of Spark ML as arrays, and the frame that has them."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import functions as F

    wanted, all_fields = list(names), frame.schema.fields
    all_names = [field.name for field in all_fields]
    counts = Counter(all_names)
    if missing := [name for name in wanted if not counts[name]]:
        raise DataError(
            f"unknown columns {listed(missing)}. The DataFrame has {listed(all_names)}."
        )
    if repeated := [name for name in dict.fromkeys(wanted) if counts[name] > 1]:
        raise DataError(
            f"columns must have unique names. Received: {repeated} several times. Rename them: "
            "`frame.toDF(…)`."
        )
    # Spark would not tell names apart that differ only in case: its frame gets other names.
    of_name = {name: place for place, name in enumerate(all_names)}
    texts = {name: quoted(name) for name in wanted}
    if len({name.casefold() for name in all_names}) < len(all_names):
        frame = frame.toDF(*(f"c{place}" for place in range(len(all_names))))
        texts = {name: f"c{of_name[name]}" for name in wanted}
    # Spark's function fails for null.
    columns = [
        F.when(frame[texts[name]].isNotNull(), vector_to_array(frame[texts[name]]))
        if isinstance(all_fields[of_name[name]].dataType, VectorUDT)
        else frame[texts[name]]
        for name in wanted
    ]
    return frame, columns


def selected(frame: "DataFrame", names: Iterable[str]) -> "DataFrame":
    """Return a frame of these columns, vectors of Spark ML as arrays; errors as of `addressed`."""
    names = list(names)
    frame, columns = addressed(frame, names)
    return frame.select(*(c.alias(name) for c, name in zip(columns, names, strict=True)))
