"""Everything that needs a GPU, by one command; the report is reports/gpu.json.

    make gpu                                    in the environment of the project
    python3 -m tests.gpu --wheels FOLDER        on a machine with JAX alone; see `wheels`
    python3 -m tests.gpu --cpu                  the same checks on CPUs, small: tests this suite

Without an NVIDIA GPU nothing is checked, which is no error. The exit status is 1 if a check failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.gpu.machine import look
from tests.gpu.runner import ROOT, Check, perform, run_all
from tests.gpu.wheels import install

# The most valuable ones first.
CHECKS = (
    Check("checks:discovery", "discover_gpus.sh finds the GPUs of nvidia-smi", 30),
    Check("checks:equal_to_cpu", "Both masters train the weights of CPUs", 150),
    Check("checks:own_gpu", "A worker sees its own GPU alone, or refuses to compute"),
    Check(
        "checks:shared_gpu",
        "Two workers train and validate on one GPU, and leave each other memory",
    ),
    Check("figures:throughput:lenet", "Speed of LeNet", 120),
    Check("figures:exchange:25", "Averaging 25 million parameters", 120),
    Check("checks:spark", "Spark gives tasks GPUs, and they train there", 150, "full"),
    Check("checks:killed", "A worker that is killed is replaced on its GPU", 120),
    Check("checks:mixed_precision", "mixed_bfloat16 and mixed_float16 train", 120),
    Check("figures:throughput:transformer", "Speed of a transformer", 210),
    Check("figures:exchange:100", "Averaging 100 million parameters", 150),
    Check("figures:throughput:resnet50", "Speed of ResNet-50", 210),
    Check("checks:xla", "XLA on, off, auto and measured train the same weights", 150, "full"),
)
_NOTE = "On CPUs, with small networks: this run tests the checks. Its figures mean nothing."


def main():
    """Run what the arguments ask for; the exit status."""
    names = [check.name for check in CHECKS]
    parser = argparse.ArgumentParser(prog="python -m tests.gpu")
    parser.add_argument("--cpu", action="store_true", help="run the checks on CPUs, small")
    parser.add_argument("--wheels", type=Path, help="folder of wheels, for packages that lack")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CHECK")
    parser.add_argument("--tier", choices=("full", "bare"), help="default: what is there")
    parser.add_argument("--budget", type=float, default=440.0, help="seconds for all checks")
    parser.add_argument("--reports", type=Path, default=ROOT / "reports", help="a folder")
    for hidden in ("--check", "--into"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.check:
        perform(given.check, Path(given.into))
        return 0
    if given.wheels is None:
        return _checked(given)
    with tempfile.TemporaryDirectory(prefix="sparkwright-wheels-") as target:
        found = install(given.wheels, Path(target))
        print(f"From {given.wheels}: {', '.join(found) or 'nothing'}.", flush=True)
        rest = [x for x in sys.argv[1:] if x not in ("--wheels", str(given.wheels))]
        command = [sys.executable, "-m", "tests.gpu", *rest]
        environment = {**os.environ, "PYTHONPATH": _path(target)}
        return subprocess.run(command, cwd=ROOT, env=environment).returncode


def _path(*first):
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join(dict.fromkeys([*first, str(ROOT / "kit"), str(ROOT), *given]))


def _checked(given):
    machine = look(given.tier)
    if not machine["gpus"] and not given.cpu:
        print(f"No NVIDIA GPU on this machine: {machine['problem']}. --cpu tests the checks.")
        return 0
    if not machine["backend"]:
        print("Keras and TensorFlow or JAX must be there. Received: neither. See --wheels.")
        return 1
    print(machine["sentence"], flush=True)

    def keep(results):
        date, note = datetime.now(UTC).isoformat(timespec="seconds"), _NOTE if given.cpu else ""
        document = {"date": date, "note": note, "machine": machine, "checks": results}
        given.reports.mkdir(parents=True, exist_ok=True)
        # At once or not at all: the run may be cut off.
        new = given.reports / "gpu.json.new"
        new.write_text(json.dumps(document, indent=2))
        new.replace(given.reports / "gpu.json")

    with tempfile.TemporaryDirectory(prefix="sparkwright-compiled-") as compiled:
        results = run_all(
            [check for check in CHECKS if check.name in given.only],
            tier=machine["tier"],
            environment=_environment(machine, cpu=given.cpu, compiled=compiled),
            budget_s=given.budget,
            keep=keep,
        )
    outcomes = [result["status"] for result in results]
    counts = ", ".join(f"{outcomes.count(k)} {k}" for k in ("passed", "failed", "skipped"))
    print(f"{counts}; see {given.reports / 'gpu.json'}")
    return 1 if "failed" in outcomes else 0


def _environment(machine, *, cpu, compiled):
    """Of all checks: one GPU, the first, of which no process takes more memory than it uses."""
    common = {"PYTHONPATH": _path(), "KERAS_BACKEND": machine["backend"], "SPARKWRIGHT_RUNS": "off"}
    common = {**os.environ, **common, "TF_CPP_MIN_LOG_LEVEL": "2"}
    if cpu:
        small = {"SPARKWRIGHT_GPU_SMALL": "1", "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
        fake = {"SPARKWRIGHT_FAKE_GPUS": "0", "SPARKWRIGHT_GPU_CHECKED": "0"}
        return {**common, **small, **fake}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or machine["gpus"][0]["index"]
    first = visible.split(",")[0]
    return {
        **common,
        **{"CUDA_VISIBLE_DEVICES": first, "SPARKWRIGHT_GPU_CHECKED": first},
        **{"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TF_FORCE_GPU_ALLOW_GROWTH": "true"},
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        # Several processes compile the same networks.
        "JAX_COMPILATION_CACHE_DIR": compiled,
    }


if __name__ == "__main__":
    sys.exit(main())
