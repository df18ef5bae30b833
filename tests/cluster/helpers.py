"""What tests on several hosts share."""

import pytest
from tests.support.hosts import why_no_hosts

_PROBLEM = why_no_hosts()
needs_hosts = pytest.mark.skipif(bool(_PROBLEM), reason=_PROBLEM or "hosts can be made")
