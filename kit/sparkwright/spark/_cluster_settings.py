"""What YARN and Kubernetes need beyond the settings that every session has."""

from collections.abc import Mapping

from ._kubernetes import pod_settings
from ._overhead import overhead_settings
from ._pod import pod_facts
from ._spark_defaults import default_settings, spark_home
from ._yarn import yarn_settings
from ._yarn_waiting import tag_settings


def cluster_settings(chosen: Mapping[str, str], *, submitted: bool) -> dict[str, str]:
    """Settings for the cluster manager of `spark.master`; none for this machine or a standalone.

    Args:
        chosen: all other settings.
        submitted: whether `spark-submit` has found the cluster and sent Spark's jars already.

    Raises:
        ConfigurationError: if a cluster's configuration or image is missing, or a value wrong.
        NetworkError: if it does not answer.
    """
    if not chosen["spark.master"].startswith(("yarn", "k8s:")):
        return {}
    elsewhere = default_settings(spark_home()).keys()
    return {
        **overhead_settings(chosen, elsewhere=elsewhere),
        **({} if submitted else yarn_settings(chosen)),
        **(tag_settings(chosen) if chosen["spark.master"] == "yarn" else {}),
        **pod_settings(chosen, pod_facts(), elsewhere=elsewhere),
    }
