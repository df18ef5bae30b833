"""Tables of cases of a test."""

from typing import Any

import pytest


def cases(names: str, *rows: Any, **options: Any) -> pytest.MarkDecorator:
    """Run the test once for each row, with its values as the arguments `names`, as "a, b".

    `options` are those of `pytest.mark.parametrize`, such as `ids`.
    """
    return pytest.mark.parametrize(names, rows, **options)
