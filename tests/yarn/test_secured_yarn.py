import pytest
from tests.support.kerberos import Kerberos
from tests.yarn import helpers

pytestmark = pytest.mark.cluster
seen = helpers.seen


def run_script(_):
    return helpers.outcome_on_yarn("on_secured_yarn.py", lambda: Kerberos().start().close())


def test_containers_train_from_a_secured_hdfs(seen):
    assert seen["examples"] == 120
    assert seen["loaded_equals_saved"] is True
    assert seen["rows"] == 2  # read by Spark itself
