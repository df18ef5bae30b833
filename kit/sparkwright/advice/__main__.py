"""The adviser as a command: `python -m sparkwright.advice --help`."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence

from sparkwright.data import digits
from sparkwright.errors import SparkwrightError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.networks import lenet
from sparkwright.spark.command_line import add_session_options, start_session
from sparkwright.storage.files import write_bytes

from ._advise import advise


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the advice, and write a file; return 0, or 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m sparkwright.advice",
        description="Train LeNet on digits on a Spark cluster with 1, 2, 4 and more workers, and "
        "say whether they pay. The exit code is 1 if it could not be measured.",
    )
    add_session_options(parser)
    parser.add_argument("--output", metavar="FILE.json", help="write JSON there")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    try:
        spark = start_session(options)
        try:
            master = ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
            data = digits(spark, partitions=1)
            found = advise(lenet(), data, master=master, spark=spark, measure=True)
        finally:
            spark.stop()
    except SparkwrightError as error:
        print(error, file=sys.stderr)
        return 1
    print(found)
    if options.output is not None:
        write_bytes(options.output, json.dumps(found.to_dict(), indent=2).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
