"""Training data that each worker draws from a pipeline of its own, such as a tf.data.Dataset."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from sparkwright.errors import ConfigurationError
from sparkwright.options import check_count

from .normalizer import Normalizer


@dataclass(frozen=True, slots=True)
class TfData:
    """Training data that each worker draws from a `tf.data.Dataset` or `keras.utils.PyDataset`.

    `SparkNetwork.fit` and `ParallelWrapper.fit` take it in place of data. Each worker calls
    `make(shard, shards)` once, with its number and the number of workers, and iterates over the
    result again in each epoch, so that random steps differ. If `make` has a parameter `epoch` (from
    0), it is called in each epoch. Elements are batches of any size: features, (features, labels)
    or (features, labels, weights), of arrays or dicts by name. The master's minibatches are made of
    them in their order, without its shuffle; a worker trains its own shard only.

    Attributes:
        make: the function. It travels in Spark's closure.
        examples: of all shards together in an epoch. Shard k has as many as
            `Dataset.shard(shards, k)` leaves of them; what a dataset has beyond is not drawn.
            Default None: each worker counts its shard by an additional pass.
        normalizer: applied to each batch; default None. Networks with a normalizer set theirs.

    Raises:
        ConfigurationError: if `make` is no function, or `examples` no count.

    Example:
        def make(shard, shards):
            files = tf.data.Dataset.list_files("photos/*.jpg", shuffle=False)
            return files.shard(shards, shard).shuffle(1000).map(augmented).batch(32)

        network.fit(sw.data.TfData(make, examples=50_000), epochs=10)
    """

    make: Callable[..., Any]
    examples: int | None = None
    normalizer: Normalizer | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not callable(self.make):
            raise ConfigurationError(
                "`make` must be a function of (shard, shards) that returns a tf.data.Dataset or a "
                f"keras PyDataset. Received: {type(self.make).__name__}. A dataset itself cannot "
                "be sent to workers: return it from a function."
            )
        check_count("examples", self.examples, optional=True)

    @property
    def layout(self) -> NoReturn:
        """What a model that is not built would be built from.

        Raises:
            ConfigurationError: always, because examples are drawn on workers only.
        """
        raise ConfigurationError(
            "a model must be built before it is trained on a `TfData`, whose examples the driver "
            "does not see. Received: a model that is not. Call it once on an example."
        )

    def rows(self, shards: int) -> tuple[int, ...] | None:
        """Examples of each shard in an epoch; None if they have to be counted."""
        if self.examples is None:
            return None
        return tuple(len(range(shard, self.examples, shards)) for shard in range(shards))
