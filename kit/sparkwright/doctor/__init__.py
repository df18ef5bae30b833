"""The doctor: find causes of failing runs before training."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._diagnosis import Check as Check, Diagnosis as Diagnosis, Status as Status
    from ._doctor import doctor as doctor

__getattr__, __dir__ = _lazy_names(__name__)
