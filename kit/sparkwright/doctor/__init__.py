"""The doctor: find causes of failing or slow runs before training."""

from ._diagnosis import Check as Check, Diagnosis as Diagnosis, Status as Status
from ._doctor import doctor as doctor
