"""Runs checks, each in a process of its own, and keeps what came of them. Standard library only."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_LEAST_S = 10.0  # with less left, a check is not begun
_ENDING_S = 5.0
Result = dict[str, Any]


class SkipCheck(Exception):  # noqa: N818
    """Raised by a check that has nothing to check here, with the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A function that checks or measures one thing.

    Attributes:
        call: "module:function" of this package, with ":argument" if it takes one.
        what: what it shows, in words.
        timeout_s: for its process.
        tier: "full" if it needs TensorFlow, PySpark and Java.
        environment: of its process, besides what all have.
    """

    call: str
    what: str
    timeout_s: float = 90
    tier: str = "bare"
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The function, and its argument."""
        return self.call.partition(":")[2].replace(":", " ")


def run_all(
    checks: Sequence[Check],
    *,
    tier: str,
    environment: Mapping[str, str],
    budget_s: float,
    keep: Callable[[list[Result]], None],
) -> list[Result]:
    """Run the checks one after another; the first ones are the most valuable.

    Args:
        checks: which.
        tier: of this machine.
        environment: of all processes.
        budget_s: for all of them.
        keep: called with all results after each check.
    """
    deadline, results = time.monotonic() + budget_s, list[Result]()
    for check in checks:
        left_s = deadline - time.monotonic()
        if check.tier == "full" and tier != "full":
            result = _outcome("skipped", "Needs TensorFlow, PySpark and Java.")
        elif left_s < _LEAST_S:
            result = _outcome("skipped", f"The {budget_s:g} s for all checks were over.")
        else:
            result = run(check, environment=environment, timeout_s=min(check.timeout_s, left_s))
        result = {"name": check.name, "what": check.what, **result}
        results.append(result)
        print(f"{result['status']:<8}{check.name:<26}{result['said'][:400]}", flush=True)
        keep(results)
    return results


def run(check: Check, *, environment: Mapping[str, str], timeout_s: float) -> Result:
    """Run one check; its status, sentence, seconds and figures."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-gpu-") as folder:
        into, log = Path(folder) / "result.json", Path(folder) / "log"
        began_s = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.gpu", "--check", check.call, "--into", str(into)],
                cwd=ROOT,
                env={**environment, **dict(check.environment)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(timeout_s)
                late = ""
            except subprocess.TimeoutExpired:
                late = f"No result within {timeout_s:.0f} s."
            finally:
                _end_group(process)
        seconds = round(time.monotonic() - began_s, 1)
        said = log.read_text(errors="replace")[-3000:]
        if into.exists():
            return {**json.loads(into.read_text()), "seconds": seconds}
        late = late or f"Its process ended with status {process.returncode}."
        return {**_outcome("failed", late), "log": said, "seconds": seconds}


def perform(call: str, into: Path) -> None:
    """Do one check in this process, and write what came of it."""
    import importlib
    import traceback

    module, name, *arguments = call.split(":")
    try:
        function = getattr(importlib.import_module(f"tests.gpu.{module}"), name)
        said, rows = function(*arguments)
        result = {**_outcome("passed", said), "rows": rows}
    except SkipCheck as reason:
        result = _outcome("skipped", str(reason))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}".strip()[:1500]
        result = {**_outcome("failed", problem), "log": traceback.format_exc()[-3000:]}
    into.write_text(json.dumps(result))


def _outcome(status: str, said: str) -> Result:
    return {"status": status, "said": said, "seconds": 0.0, "rows": []}


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End the check and the workers that it has started, which are of its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
