"""Save and load evaluations at a URL, as JSON."""

from sparkwright.errors import DataError
from sparkwright.evaluation import AbstractEvaluation

from .files import open_to_read, write_bytes

_MAX_BYTES = 1 << 30  # an exact ROC takes up to 11 bytes per score


def save_evaluation(evaluation: AbstractEvaluation, url: str) -> None:
    """Write an evaluation to `url` as JSON, atomically.

    An existing file is replaced; parent folders are created.

    Args:
        evaluation: an evaluation of any kind. Functions of a `CustomEvaluation` are not saved.
        url: destination URL or local path.

    Raises:
        OSError: if the store fails; names the URL.
    """
    write_bytes(url, evaluation.to_json().encode())


def load_evaluation(url: str) -> AbstractEvaluation:
    """Read an evaluation of any kind that `save_evaluation` wrote.

    It can be merged with other evaluations as before. To restore the functions of a custom
    evaluation, add it: `CustomEvaluation(evaluate, merge, title=…) + loaded`.

    Raises:
        OSError: if the store fails; names the URL.
        DataError: if the file contains no evaluation, or is larger than 1 GiB.
    """
    with open_to_read(url) as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise DataError(
            f"an evaluation file must have at most {_MAX_BYTES} bytes. Received: {url} with "
            "more. Check the path."
        )
    try:
        return AbstractEvaluation.from_json(content)
    except DataError as error:
        raise DataError(f"{url} is not a valid evaluation: {error}") from None
