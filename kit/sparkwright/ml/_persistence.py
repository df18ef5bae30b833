"""Save and load stages: Spark ML's metadata, and the `.keras` file as a Parquet column.

Spark writes both, so a stage can be saved wherever its pipeline can.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyspark
from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReader, MLWriter

from sparkwright.errors import DataError
from sparkwright.storage import load_model, save_model

# Of the file of a model in a row, and in a task: Spark refuses tasks and messages of Spark Connect
# of more than 128 MiB. Each part is written and read by a job of its own, because a model may be
# larger than the heap of the driver's JVM and than all that one job may return.
_ROW_BYTES = 32 << 20
_FILE = "network.keras"
_COLUMNS = "start bigint, content binary"


class StageWriter(MLWriter):
    """Writes a stage with a Keras model; see `pyspark.ml.util.MLWriter`."""

    def __init__(self, stage: Any) -> None:
        """Create a writer for `stage`."""
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
            with file.open("rb") as content:
                while part := content.read(_ROW_BYTES):
                    row = (content.tell() - len(part), bytearray(part))
                    frame = self.sparkSession.createDataFrame([row], _COLUMNS)
                    frame.coalesce(1).write.mode("append").parquet(f"{path}/{_FILE}")


class StageReader(MLReader[Any]):
    """Reads what `StageWriter` wrote; see `pyspark.ml.util.MLReader`."""

    def __init__(self, kind: type[Any]) -> None:
        """Create a reader for stages of the class `kind`."""
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        """Read the folder `path` without running its code; custom layers must be registered."""
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
            with file.open("xb") as content:
                for start in sorted(row.start for row in frame.select("start").collect()):
                    content.write(frame.where(frame.start == start).collect()[0].content)
            stage = self._kind(model=load_model(str(file)))
        DefaultParamsReader.getAndSetParams(stage, metadata)
        stage.restore(metadata)
        return stage._resetUid(metadata["uid"])


def _place(access: Any) -> Any:
    """Return the argument of PySpark's metadata functions: a context before 4.0, then a session."""
    return access.sc if pyspark.__version__.startswith("3.") else access.sparkSession
