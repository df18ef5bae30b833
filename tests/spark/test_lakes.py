from pathlib import Path

import pyspark
import pytest
from tests.scripts import json_printed_by
from tests.support.hadoop import kept_jar

from sparkwright.errors import ConfigurationError, NetworkError

pytestmark = pytest.mark.versions

_VERSION = ".".join(pyspark.__version__.split(".")[:2])
_KERNEL = ("api", "defaults", "unitycatalog")
# The releases for this version of Spark, if there is one: each is built for a single version.
JARS = {
    "delta": (
        {"4.0", "4.1", "4.2"},
        f"io.delta:delta-spark_{_VERSION}_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        *(f"io.delta:delta-kernel-{name}:4.4.0" for name in _KERNEL),
    ),
    "iceberg": ({"4.0", "4.1"}, f"org.apache.iceberg:iceberg-spark-runtime-{_VERSION}_2.13:1.11.0"),
}


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_table_is_trained_on_and_predictions_are_written_back(format, tmp_path):
    versions, *artifacts = JARS[format]
    if _VERSION not in versions:
        pytest.skip(f"{format} has no release for Spark {_VERSION}.")
    try:
        jars = [str(kept_jar(artifact)) for artifact in artifacts]
    except (ConfigurationError, NetworkError) as error:
        pytest.skip(str(error))
    script = Path(__file__).with_name("lake_session.py")
    found = json_printed_by(script, format, ",".join(jars), tmp_path)
    assert found == {"same": True, "trained": True, "predicted": True}
