"""Everything that needs a GPU, by one command; the report is reports/gpu.json and gpu.html.

    make gpu                                    in the environment of the project
    python3 -m tests.gpu --wheels FOLDER        on a machine with JAX alone; see `wheels`
    python3 -m tests.gpu --cpu                  the same checks on CPUs, small: tests this suite

Without an NVIDIA GPU nothing is checked, which is no error. The exit status is 1 if a check failed.
"""

import argparse
import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gpu.machine import Machine, look
from tests.gpu.page import page_of
from tests.gpu.runner import ROOT, Check, Result, perform, run_all

_EXACT = (("NVIDIA_TF32_OVERRIDE", "0"), ("JAX_DEFAULT_MATMUL_PRECISION", "highest"))
# The most valuable ones first.
CHECKS = (
    Check(
        call="checks:discovery", what="discover_gpus.sh finds the GPUs of nvidia-smi", timeout_s=30
    ),
    Check(
        call="checks:equal_to_cpu",
        what="Both masters train the weights of CPUs",
        timeout_s=150,
        environment=_EXACT,
    ),
    Check(call="checks:own_gpu", what="A worker sees its own GPU alone, or refuses to compute"),
    Check(call="checks:shared_gpu", what="Two workers share one GPU and leave each other memory"),
    Check(call="figures:throughput:lenet", what="Speed of LeNet", timeout_s=120),
    Check(call="figures:exchange:25", what="Averaging 25 million parameters", timeout_s=120),
    Check(
        call="checks:spark",
        what="Spark gives tasks GPUs and trains there",
        timeout_s=150,
        tier="full",
    ),
    Check(
        call="checks:killed", what="A worker that is killed is replaced on its GPU", timeout_s=120
    ),
    Check(
        call="checks:mixed_precision", what="mixed_bfloat16 and mixed_float16 train", timeout_s=120
    ),
    Check(call="figures:throughput:transformer", what="Speed of a transformer", timeout_s=150),
    Check(call="checks:inference", what="Validation on the GPU agrees with the CPU"),
    Check(call="figures:exchange:100", what="Averaging 100 million parameters", timeout_s=150),
    Check(call="figures:throughput:resnet50", what="Speed of ResNet-50", timeout_s=180),
    Check(
        call="checks:xla",
        what="XLA on, off and auto train the same weights",
        timeout_s=150,
        tier="full",
        environment=_EXACT,
    ),
)


def main() -> int:
    """Run what the arguments ask for; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--cpu", action="store_true", help="run the checks on CPUs, small")
    parser.add_argument(
        "--wheels", type=Path, help="a folder of wheels to use where packages are missing"
    )
    parser.add_argument("--only", default="", help="names of checks, separated by commas")
    parser.add_argument("--tier", choices=("full", "bare"), help="default: what this machine has")
    parser.add_argument("--budget", type=float, default=440.0, help="seconds for all checks")
    parser.add_argument(
        "--reports", type=Path, default=ROOT / "reports", help="folder of the report"
    )
    parser.add_argument("--check", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.check:
        perform(given.check, given.into)
        return 0
    if given.wheels:
        return _again_with(given.wheels)
    return _all(given)


def _again_with(wheels: Path) -> int:
    """Run this command in a process that also imports from wheels, and wait for it."""
    import subprocess

    from tests.gpu.wheels import install

    rest = [each for each in sys.argv[1:] if each not in ("--wheels", str(wheels))]
    rest = [each for each in rest if not each.startswith("--wheels=")]
    with tempfile.TemporaryDirectory(prefix="sparkwright-wheels-") as target:
        found = install(wheels, Path(target))
        print(f"From {wheels}: {', '.join(found) or 'nothing is needed'}.", flush=True)
        environment = {**os.environ, "PYTHONPATH": _path(target)}
        command = [sys.executable, "-m", "tests.gpu", *rest]
        return subprocess.run(command, cwd=ROOT, env=environment).returncode


def _path(*first: str) -> str:
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join(dict.fromkeys([*first, str(ROOT / "kit"), str(ROOT), *given]))


def _all(given: Any) -> int:
    machine = look(tier=given.tier)
    if not machine.gpus and not given.cpu:
        print(
            f"No NVIDIA GPU on this machine: {machine.problem}. --cpu tests the checks themselves."
        )
        return 0
    if not machine.backend:
        print(
            "The checks need Keras and TensorFlow or JAX. Received: none. Install them, or use --wheels."
        )
        return 1
    print(machine.sentence, flush=True)
    only = [name for name in given.only.split(",") if name]
    unknown = set(only) - {check.name for check in CHECKS}
    if unknown:
        print(f"--only takes {', '.join(c.name for c in CHECKS)}. Received: {', '.join(unknown)}.")
        return 2
    note = "On CPUs, with small networks: this run tests the checks. Its figures mean nothing."

    def keep(results: list[Result]) -> None:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "note": note if given.cpu else "",
            "machine": machine.facts(),
            "budget_s": given.budget,
            "checks": results,
        }
        _write(given.reports / "gpu.json", json.dumps(document, indent=2))
        _write(given.reports / "gpu.html", page_of(document))

    with tempfile.TemporaryDirectory(prefix="sparkwright-compiled-") as compiled:
        results = run_all(
            [check for check in CHECKS if not only or check.name in only],
            tier=machine.tier,
            environment=_environment(machine, cpu=given.cpu, compiled=compiled),
            budget_s=given.budget,
            keep=keep,
        )
    failed = sum(result["status"] == "failed" for result in results)
    passed = sum(result["status"] == "passed" for result in results)
    print(
        f"{passed} passed, {failed} failed, {len(results) - passed - failed} skipped; see {given.reports}/gpu.html"
    )
    return 1 if failed else 0


def _environment(machine: Machine, *, cpu: bool, compiled: str) -> dict[str, str]:
    """Of all checks: one GPU, the first, of which nobody takes more memory than is used."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or next((g["index"] for g in machine.gpus), "")
    common = {
        **os.environ,
        "PYTHONPATH": _path(),
        "KERAS_BACKEND": machine.backend,
        "SPARKWRIGHT_RUNS": "off",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    if cpu:
        small = {
            "SPARKWRIGHT_FAKE_GPUS": "0",
            "SPARKWRIGHT_GPU_CHECKED": "0",
            "JAX_PLATFORMS": "cpu",
        }
        return {**common, **small, "SPARKWRIGHT_GPU_SMALL": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    return {
        **common,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible.split(",")[0],
        "SPARKWRIGHT_GPU_CHECKED": visible.split(",")[0],
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        # Several processes compile the same networks.
        "JAX_COMPILATION_CACHE_DIR": compiled,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1",
    }


def _write(path: Path, text: str) -> None:
    """At once or not at all: the run may be cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(path.suffix + ".new")
    new.write_text(text)
    new.replace(path)


if __name__ == "__main__":
    sys.exit(main())
