"""Runs checks, each in a process of its own, and keeps what came of them; standard library only."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_LEAST_S = 10.0  # with less left, a check is not begun
_ENDING_S = 5.0
Result = dict[str, Any]


class SkipCheck(Exception):
    """Raised by a check that has nothing to check here, with the reason."""


class Check(NamedTuple):
    """A function, as "module:function" or "module:function:argument", and what it shows."""

    call: str
    what: str
    timeout_s: float = 90
    tier: str = "bare"  # "full": it needs TensorFlow, PySpark and Java

    @property
    def name(self):
        return self.call.partition(":")[2].replace(":", " ")


def run_all(checks, *, tier, environment, budget_s, keep):
    """Run the checks in order within `budget_s`; `keep` gets all results after each of them."""
    deadline, results = time.monotonic() + budget_s, []
    for check in checks:
        left_s = deadline - time.monotonic()
        if check.tier == "full" != tier:
            result = _result("skipped", "It needs TensorFlow, PySpark and Java.")
        elif left_s < _LEAST_S:
            result = _result("skipped", f"The {budget_s:g} s for all checks were over.")
        else:
            result = run(check, environment, min(check.timeout_s, left_s))
        results.append({"name": check.name, "what": check.what, **result})
        print(f"{result['status']:<8}{check.name:<24}{result['said'][:400]}", flush=True)
        for row in result["rows"]:
            ratio = "" if row.get("ratio") is None else f"{row['ratio']:.2f}"
            texts = f"{row['what']:<84}{row['value']:>12,.2f} {row['unit']:<11}{ratio:>6}"
            print(f"        {texts}  {row.get('target', '')}", flush=True)
        keep(results)
    return results


def run(check, environment, timeout_s):
    """Run one check; a process that ends without a result, or too late, has failed."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-gpu-") as folder:
        into, log = Path(folder) / "result.json", Path(folder) / "log"
        began_s = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.gpu", "--check", check.call, "--into", str(into)],
                **{"cwd": ROOT, "env": environment, "start_new_session": True},
                **{"stdout": output, "stderr": subprocess.STDOUT},
            )
            said = f"There was no result within {timeout_s:.0f} s."
            with contextlib.suppress(subprocess.TimeoutExpired):
                said = f"Its process ended with status {process.wait(timeout_s)}."
            _end_group(process)
        result = _result("failed", said, log=log.read_text(errors="replace")[-3000:])
        if into.exists():
            result = json.loads(into.read_text())
        return {**result, "seconds": round(time.monotonic() - began_s, 1)}


def perform(call, into):
    """Do one check in this process, and write its result."""
    module, name, *arguments = call.split(":")
    try:
        said, rows = getattr(importlib.import_module(f"tests.gpu.{module}"), name)(*arguments)
        result = _result("passed", said, rows=rows)
    except SkipCheck as reason:
        result = _result("skipped", str(reason))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"[:1500]
        result = _result("failed", problem, log=traceback.format_exc()[-3000:])
    new = into.with_suffix(".new")
    new.write_text(json.dumps(result))
    new.replace(into)


def _result(status, said, **more):
    return {"status": status, "said": said, "seconds": 0.0, "rows": [], **more}


def _end_group(process):
    """End the check and the workers that it has started, which are of its group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
