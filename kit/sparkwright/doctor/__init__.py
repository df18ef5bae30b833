"""The doctor: what would keep a run from working, or make it slow."""

from ._check import Check as Check, Status as Status
from ._diagnosis import Diagnosis as Diagnosis
from ._doctor import doctor as doctor
