"""Python imports this module when trainers and Spark's workers start; see `tests.support.tally`."""

import os

if os.environ.get("SPARKWRIGHT_TALLY"):
    from tests.support import tally

    tally.install()
