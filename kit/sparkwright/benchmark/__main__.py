"""The benchmark as a command: `python -m sparkwright.benchmark --help`."""

import argparse
import logging
import sys
from collections.abc import Sequence

from sparkwright.errors import ConfigurationError, SparkwrightError
from sparkwright.spark.command_line import add_session_options, start_session
from sparkwright.storage.files import write_bytes

from ._front import benchmark
from ._result import BenchmarkResult


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write files; returns 0, or 1 if nothing could be measured."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    try:
        spark = start_session(options)
        try:
            found = benchmark(
                spark,
                target=options.target,
                budget_s=options.budget,
                include_hosts=options.include_hosts,
            )
        finally:
            spark.stop()
    except SparkwrightError as error:
        print(error, file=sys.stderr)
        return 1
    print(found)
    if options.output is not None:
        found.to_json(options.output)
        _write_picture(found, options.output.removesuffix(".json") + ".png")
    return 0 if found.runs else 1


def _write_picture(found: BenchmarkResult, url: str) -> None:
    import io

    content = io.BytesIO()
    try:
        found.figure().savefig(content, format="png", dpi=120)
    except ConfigurationError as error:  # without matplotlib there are the table and the JSON
        print(error, file=sys.stderr)
    else:
        write_bytes(url, content.getvalue())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sparkwright.benchmark",
        description="Measure training on a Spark cluster: LeNet on digits, in five minutes. The "
        "exit code is 1 if nothing could be measured.",
    )
    add_session_options(parser)
    parser.add_argument("--target", type=float, help="accuracy to reach; default 0.95")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds; default 300")
    parser.add_argument(
        "--output", metavar="FILE.json", help="write JSON there, and a picture beside it"
    )
    parser.add_argument(
        "--include-hosts", action="store_true", help="name the executors' hosts in the JSON"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
