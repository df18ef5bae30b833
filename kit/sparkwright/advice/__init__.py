"""Whether a network fits on a cluster, whether workers pay there, and what to change."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from ._advice import Advice as Advice
    from ._advise import advise as advise
    from ._alternatives import Alternative as Alternative
    from ._load import Load as Load, ScalingPoint as ScalingPoint
    from ._memory import MemoryPlan as MemoryPlan, plan_memory as plan_memory
    from ._predict import predict as predict
    from ._tables import MeasuredRun as MeasuredRun

__getattr__, __dir__ = _lazy_names(__name__)
