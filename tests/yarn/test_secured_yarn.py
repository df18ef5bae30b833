"""A session on a YARN and an HDFS with Kerberos, on this machine."""

from typing import Any

import pytest
from tests.support.hadoop import yarn_jars
from tests.support.kerberos import Kerberos
from tests.yarn.helpers import outcome

from sparkwright.errors import ConfigurationError, NetworkError

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def seen() -> Any:
    try:
        yarn_jars()
        Kerberos().start().close()
    except (ConfigurationError, NetworkError) as error:
        pytest.skip(str(error))
    return outcome("on_secured_yarn.py", timeout_s=270)


def test_containers_train_from_a_secured_hdfs(seen: Any) -> None:
    assert seen["examples"] == 120
    assert seen["loaded_equals_saved"] is True


def test_sparks_own_readers_have_sparks_tokens(seen: Any) -> None:
    assert seen["rows"] == 2


def test_a_session_without_a_ticket_is_rejected_in_one_sentence(seen: Any) -> None:
    last = seen["no_ticket"].splitlines()[-1]
    assert last.startswith("PermissionError: hdfs://")
    assert "requires a valid Kerberos ticket. Received: No Kerberos credentials available" in last
