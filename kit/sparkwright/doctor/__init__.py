"""The doctor: what would keep a run from working, or make it slow."""

from ._diagnosis import Check as Check, Diagnosis as Diagnosis, Status as Status
from ._doctor import doctor as doctor
