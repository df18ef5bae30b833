"""What tests do that run a program in a process of its own."""

import contextlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def json_printed_by(*arguments, timeout_s=270, environment=None):
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
        # A copy: while a thread starts a program, tests change the environment of this process.
        env=dict(os.environ) if environment is None else environment,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-6000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@contextlib.contextmanager
def started_ahead(request, call, *, attribute, at_a_time):
    """Start `call(module)` for each selected test module that has the attribute, in their order.

    Starting Spark and TensorFlow leaves half of two cores idle: the next module's program uses it.
    """
    found = [getattr(item, "module", None) for item in request.session.items]
    modules = dict.fromkeys(module for module in found if hasattr(module, attribute))
    pool = ThreadPoolExecutor(at_a_time)
    try:
        yield {module: pool.submit(call, module) for module in modules if module is not None}
    finally:
        pool.shutdown(cancel_futures=True)
