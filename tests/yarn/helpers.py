"""What tests do that run a session in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def outcome(script: str, *, timeout_s: float) -> Any:
    """The JSON that a script beside this file prints last."""
    path = Path(__file__).with_name(script)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_PYTHON")
    }
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])
