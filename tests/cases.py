"""Tables of cases of a test."""

import pytest


def cases(names, *rows, **options):
    """Run the test once for each row, with its values as the arguments `names`, as "a, b".

    `options` are those of `pytest.mark.parametrize`, such as `ids`.
    """
    return pytest.mark.parametrize(names, rows, **options)
