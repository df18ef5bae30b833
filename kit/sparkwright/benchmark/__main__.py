"""The benchmark as a command: `python -m sparkwright.benchmark --help`."""

import argparse
import io
import logging
import sys
from collections.abc import Sequence

from sparkwright.errors import ConfigurationError, SparkwrightError
from sparkwright.spark.command_line import add_session_options, start_session
from sparkwright.storage.files import write_bytes

from ._front import benchmark


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write files; return 0, or 1 if all measurements failed."""
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
    options = parser.parse_args(arguments)
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
        picture = io.BytesIO()
        try:
            found.figure().savefig(picture, format="png", dpi=120)
        except ConfigurationError as error:  # no figure without matplotlib
            print(error, file=sys.stderr)
        else:
            write_bytes(options.output.removesuffix(".json") + ".png", picture.getvalue())
    return 0 if found.runs else 1


if __name__ == "__main__":
    sys.exit(main())
