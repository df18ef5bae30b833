"""A session on a YARN and an HDFS with Kerberos, on this machine."""

import pytest
from tests.support.kerberos import Kerberos
from tests.yarn import helpers

pytestmark = pytest.mark.cluster
seen = helpers.seen


def run_script(_):
    return helpers.outcome_on_yarn("on_secured_yarn.py", lambda: Kerberos().start().close())


def test_containers_train_from_a_secured_hdfs(seen):
    """Containers have no ticket: YARN gives them the tokens that Spark and the engine asked for."""
    assert seen["examples"] == 120
    assert seen["loaded_equals_saved"] is True
    assert seen["rows"] == 2  # read by Spark itself
