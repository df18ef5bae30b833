"""What tests do that run a session in a process of its own."""

import os
from pathlib import Path

import pytest
from tests.scripts import json_printed_by
from tests.support.hadoop import yarn_jars

from sparkwright.errors import ConfigurationError, NetworkError


def outcome(script, *, timeout_s):
    """The JSON that a script beside this file prints last."""
    path = Path(__file__).with_name(script)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_PYTHON")
    }
    return json_printed_by(path, timeout_s=timeout_s, environment=environment)


def outcome_on_yarn(script, *needed):
    """Likewise, on a YARN of its own; an error if its servers or what is needed is missing."""
    try:
        for needs in (yarn_jars, *needed):
            needs()
    except (ConfigurationError, NetworkError) as error:
        return error
    return outcome(script, timeout_s=270)


@pytest.fixture(scope="module")
def seen(script_result):
    """What the script of a module printed."""
    if isinstance(script_result, Exception):
        pytest.skip(str(script_result))
    return script_result
