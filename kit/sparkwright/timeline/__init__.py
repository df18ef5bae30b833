"""Timelines of runs: phases, storage, summaries, charts and file formats."""

from typing import TYPE_CHECKING

from sparkwright._lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from .clocks import ClockReading as ClockReading
    from .phases import (
        PHASES as PHASES,
        Phase as Phase,
        PhaseCode as PhaseCode,
        phase_of as phase_of,
    )
    from .store import SpanStore as SpanStore
    from .summary import PhaseTotal as PhaseTotal
    from .timeline import Timeline as Timeline

__getattr__, __dir__ = _lazy_names(__name__)
