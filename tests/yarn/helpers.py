"""What tests do that run a session in a process of its own."""

import os
from pathlib import Path
from typing import Any

from tests.scripts import json_printed_by


def outcome(script: str, *, timeout_s: float) -> Any:
    """The JSON that a script beside this file prints last."""
    path = Path(__file__).with_name(script)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_PYTHON")
    }
    return json_printed_by(path, timeout_s=timeout_s, environment=environment)
