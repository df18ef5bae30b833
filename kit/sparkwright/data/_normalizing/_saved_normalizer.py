"""The normalizer that was saved with a model."""

from sparkwright.storage._models import read_notes

from ._normalizer import Normalizer
from ._normalizers import normalizer_from_dict


def load_normalizer(url: str) -> Normalizer | None:
    """The normalizer that `SparkNetwork.save` kept with the model; None if it had none.

    TensorFlow is not needed, and of the file only this part is read.

    Args:
        url: of the `.keras` file. A local path counts as a URL.

    Raises:
        OSError: whatever the store says, naming the URL.
        DataError, ConfigurationError: if the file is damaged.
    """
    settings = read_notes(url).get("normalizer")
    return None if settings is None else normalizer_from_dict(settings)
