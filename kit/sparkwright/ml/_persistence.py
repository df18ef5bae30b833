"""Stages on disk: Spark ML's metadata, and beside it the model in Keras' format as a column.

Both go through Spark, so that a stage can be saved wherever the pipeline around it can.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyspark
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from sparkwright.errors import DataError
from sparkwright.storage import load_model, save_model

# Rows of Parquet must stay far below 2 GB, and messages of Spark Connect below 128 MB.
_ROW_BYTES = 32 << 20
_FILE = "network.keras"


class StageWriter(MLWriter):
    """Writes a stage with a Keras model; see `pyspark.ml.util.MLWriter`."""

    def __init__(self, stage: Any) -> None:
        """Take the stage."""
        super().__init__()
        self._stage = stage

    def saveImpl(self, path: str) -> None:
        """Write to the folder `path`."""
        params, extra = self._stage.saved_params()
        DefaultParamsWriter.saveMetadata(
            self._stage, path, _place(self), extraMetadata=extra, paramMap=params
        )
        with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
            file = Path(folder) / _FILE
            save_model(self._stage.saved_model(), str(file))
            content = file.read_bytes()
        starts = range(0, len(content), _ROW_BYTES)
        rows = [(start, bytearray(content[start : start + _ROW_BYTES])) for start in starts]
        frame = self.sparkSession.createDataFrame(rows, "start bigint, content binary")
        frame.coalesce(1).write.parquet(f"{path}/{_FILE}")


class StageReader(MLReader[Any]):
    """Reads what `StageWriter` wrote; see `pyspark.ml.util.MLReader`."""

    def __init__(self, kind: type[Any]) -> None:
        """Take the class of the stage."""
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        """Read the folder `path`.

        Custom layers, losses and metrics are found where `keras.saving` registered them; nothing in
        the folder is executed.

        Raises:
            DataError: if the folder holds a stage of another class, or a damaged model.
        """
        metadata = DefaultParamsReader.loadMetadata(path, _place(self))
        expected = f"{self._kind.__module__}.{self._kind.__name__}"
        if metadata["class"] != expected:
            raise DataError(
                f"{path} must hold a {expected}. Received: a {metadata['class']}. Read it with "
                "that class."
            )
        frame = self.sparkSession.read.parquet(f"{path}/{_FILE}")
        with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
            file = Path(folder) / _FILE
            file.write_bytes(b"".join(bytes(row.content) for row in frame.sort("start").collect()))
            stage = self._kind(model=load_model(str(file)))
        DefaultParamsReader.getAndSetParams(stage, metadata)
        stage.restore(metadata)
        return stage._resetUid(metadata["uid"])


def _place(access: Any) -> Any:
    """Return what PySpark's metadata functions take: a context before version 4, then a session."""
    return access.sc if pyspark.__version__.startswith("3.") else access.sparkSession
