"""Execute a notebook and write its report: `python -m sparkwright_widgets.report --help`."""

import sys

from ._report import main

if __name__ == "__main__":
    sys.exit(main())
