"""`sw.doctor`: find causes of failing runs before training."""

import sys
from typing import TYPE_CHECKING

from sparkwright.options import check_number

from ._diagnosis import Diagnosis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.masters import MeshConfig


def doctor(
    spark: "SparkSession | None" = None,
    *,
    mesh: "MeshConfig | None" = None,
    timeout_s: float = 60.0,
) -> Diagnosis:
    """Check this process, Spark and its executors, and recommend changes.

    One small Spark job of a few seconds checks every executor with a free slot. It changes nothing
    and does not start TensorFlow.

    Args:
        spark: the session; default the active one. Without a session, only this machine is checked.
        mesh: ports, network and addresses of later runs, which the doctor also uses. Default
            `MeshConfig()`.
        timeout_s: seconds to wait for the executors; default 60.

    Returns:
        The diagnosis: `print` it, or use `ok`, `problems` and `to_json()`.

    Raises:
        ConfigurationError: if `timeout_s` is invalid.

    Example:
        diagnosis = sw.doctor(spark)
        if not diagnosis.ok:
            print(diagnosis)
    """
    check_number("timeout_s", timeout_s, minimum=1, maximum=3600)
    # `import sparkwright` imports this module, but the rest of the kit only on first use.
    from ._gathering import gather
    from ._rules import diagnose

    return diagnose(gather(spark or _active(), mesh=mesh, timeout_s=timeout_s))


def _active() -> "SparkSession | None":
    if "pyspark" not in sys.modules:
        return None  # no session has been started
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
