"""What happens to frames on their way from one host to another: delay, loss, a cut; pure."""

import random
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

# Bytes that may wait for a slow link; what comes on top is lost, as in a router.
_QUEUE_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkRule:
    """One direction of a link between two hosts.

    Attributes:
        delay_s: how long each frame takes, in seconds; default 0.
        loss: the share of frames that is lost, by chance, in [0, 1]; default 0.
        bytes_per_s: what the link carries a second; default None: as much as comes.
        cut: whether nothing arrives any more, and nobody is told; default False.
    """

    delay_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float | None = None
    cut: bool = False

    def __post_init__(self) -> None:
        """Refuse what no link can be."""
        if not 0 <= self.delay_s < 60:
            raise ConfigurationError(
                f"`delay_s` must be from 0 to 60 seconds. Received: delay_s={self.delay_s!r}."
            )
        if not 0 <= self.loss <= 1:
            raise ConfigurationError(
                f"`loss` must be a share from 0 to 1. Received: loss={self.loss!r}."
            )
        if self.bytes_per_s is not None and not self.bytes_per_s > 0:
            raise ConfigurationError(
                "`bytes_per_s` must be greater than 0, or None. Received: "
                f"bytes_per_s={self.bytes_per_s!r}. Use `cut=True` for a link that carries nothing."
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {
            "delay_s": self.delay_s,
            "loss": self.loss,
            "bytes_per_s": self.bytes_per_s,
            "cut": self.cut,
        }


class Link:
    """One direction of a link, with its queue.

    Attributes:
        rule: for frames from now on; those on their way arrive.
    """

    def __init__(self, rule: LinkRule | None = None, *, seed: int | str = 0) -> None:
        """Begin with `rule` (default: a link without faults); `seed` decides what is lost."""
        self.rule = LinkRule() if rule is None else rule
        self._chance = random.Random(seed)
        self._busy_until_s = 0.0

    def arrival_s(self, size_bytes: int, now_s: float) -> float | None:
        """When a frame that is sent at `now_s` arrives, or None if it is lost."""
        rule = self.rule
        if rule.cut or (rule.loss and self._chance.random() < rule.loss):
            return None
        if rule.bytes_per_s is None:
            return now_s + rule.delay_s
        begins_s = max(now_s, self._busy_until_s)
        if (begins_s - now_s) * rule.bytes_per_s > _QUEUE_BYTES:
            return None
        self._busy_until_s = begins_s + size_bytes / rule.bytes_per_s
        return self._busy_until_s + rule.delay_s
