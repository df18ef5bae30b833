"""What tests do that run a program in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def json_printed_by(
    *arguments: str | Path, timeout_s: float = 270, environment: Mapping[str, str] | None = None
) -> Any:
    """Run Python with these arguments; what the last line that it prints says.

    Args:
        arguments: a script and its arguments, or "-c" and a program.
        timeout_s: for all of it; default 270.
        environment: default None: this process' own.
    """
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-6000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
