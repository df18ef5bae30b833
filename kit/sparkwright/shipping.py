"""Writes the engine as a ZIP that Spark sends to executors.

    python -m sparkwright.shipping [FOLDER]

Prints the file's path, for `spark-submit --py-files`. A session that is started from Python needs
none of this: the engine is sent to the executors automatically.
"""

import sys

from .cluster.engine_archive import write_archive


def main(arguments: list[str]) -> int:
    """Write the ZIP into the folder that is named, or this one.

    Args:
        arguments: none, or the folder.

    Returns:
        0, or 2 if the arguments are invalid.
    """
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    sys.stdout.write(f"{write_archive(*arguments or ['.'])}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
