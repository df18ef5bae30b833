"""Timelines of runs: phases, storage, summaries, charts and file formats."""

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
