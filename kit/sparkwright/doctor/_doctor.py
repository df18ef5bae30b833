"""Looks for what would keep a run from working, or make it slow."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkwright.errors import ConfigurationError
from sparkwright.options import check_number

from ._diagnosis import Diagnosis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.masters import MeshConfig


def doctor(
    spark: "SparkSession | None" = None,
    *,
    urls: Sequence[str] = (),
    mesh: "MeshConfig | None" = None,
    timeout_s: float = 60.0,
) -> Diagnosis:
    """Look at this process, at Spark and at its executors, and say what to change.

    One small Spark job visits every executor that has a free slot. Nothing is changed, and
    TensorFlow is not started there. It takes a few seconds.

    Args:
        spark: the session; default the active one. Without any, only this machine is looked at.
        urls: folders that all machines should be able to read and write, such as that of the
            checkpoints; a small file is written there and removed. Default none.
        mesh: ports, network and addresses of the runs to come: the doctor uses the same. Default
            `MeshConfig()`.
        timeout_s: seconds to wait for the executors; default 60.

    Returns:
        The diagnosis: `print` it, look at `ok` and `problems`, or write `to_json()`.

    Raises:
        ConfigurationError: if `urls` is one text, or `timeout_s` is no time.

    Example:
        diagnosis = sw.doctor(spark, urls=["hdfs:///models"])
        if not diagnosis.ok:
            print(diagnosis)
    """
    if isinstance(urls, str):
        raise ConfigurationError(
            f"`urls` must be a list of URLs. Received: urls={urls!r}. Write `urls=[{urls!r}]`."
        )
    check_number("timeout_s", timeout_s, minimum=1, maximum=3600)
    # `sparkwright` imports this module at once, and the rest of the kit at its first use.
    from ._gathering import gather
    from ._rules import diagnose

    return diagnose(gather(spark or _active(), urls=urls, mesh=mesh, timeout_s=timeout_s))


def _active() -> "SparkSession | None":
    import sys

    if "pyspark" not in sys.modules:
        return None  # then nobody has started one
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
