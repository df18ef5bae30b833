"""The doctor as a command: `python -m sparkwright.doctor --help`."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Sequence

from sparkwright.errors import SparkwrightError
from sparkwright.masters import MeshConfig
from sparkwright.spark.command_line import add_session_options, start_session

from ._diagnosis import Diagnosis
from ._doctor import doctor
from ._gathering import gather
from ._rules import diagnose


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a diagnosis; return 0 if it has no problem, else 1."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    diagnosis = _diagnosis(options)
    print(diagnosis.to_json() if options.json else diagnosis)
    return 0 if diagnosis.ok else 1


def _diagnosis(options: argparse.Namespace) -> Diagnosis:
    mesh = MeshConfig(ports=options.ports, network_mask=options.network_mask)
    if options.no_spark:
        return doctor(mesh=mesh, timeout_s=options.timeout)
    try:
        spark = start_session(options)
    except Exception as error:
        # Any error on the start of Spark is part of the diagnosis.
        return _without_spark(error, options)
    try:
        return doctor(spark, mesh=mesh, timeout_s=options.timeout)
    finally:
        spark.stop()


def _without_spark(error: Exception, options: argparse.Namespace) -> Diagnosis:
    text = str(error) if isinstance(error, SparkwrightError) else f"{type(error).__name__}: {error}"
    found = gather(None, timeout_s=options.timeout)
    return diagnose(dataclasses.replace(found, spark_problem=text.splitlines()[0]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sparkwright.doctor",
        description="Look for what would keep training on Spark from working. The exit code is 0 "
        "if there is no problem, 1 if there is one.",
    )
    add_session_options(parser)
    parser.add_argument("--ports", help="ports of the runs to come, such as 50000-50100")
    parser.add_argument("--network-mask", help="their network, such as 10.0.0.0/16")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds; default 60")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-spark", action="store_true", help="do not start Spark")
    return parser


if __name__ == "__main__":
    sys.exit(main())
