"""Command line options for starting a Spark session."""

import argparse
from typing import TYPE_CHECKING

from ._session import start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add `--master`, `--workers` and `--conf` to `parser`."""
    parser.add_argument("--master", help="spark://…, yarn, k8s://…; default: this machine")
    parser.add_argument("--workers", type=int, default=2, help="number of executors; default 2")
    parser.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=_setting,
        help="a Spark setting; may be repeated",
    )


def start_session(options: argparse.Namespace) -> "SparkSession":
    """Start the session that the options of `add_session_options` describe."""
    settings = dict(setting.split("=", 1) for setting in options.conf)
    return start_spark(master=options.master, workers=options.workers, settings=settings)


def _setting(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"write NAME=VALUE. Received: {text!r}.")
    return text
