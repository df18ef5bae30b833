"""All rules, in display order. Pure."""

from collections.abc import Callable, Iterator

from ._diagnosis import Check, Diagnosis
from ._executor_rules import (
    NETWORK_RULES,
    VERSION_RULES,
    clock_checks,
    file_checks,
    job_checks,
)
from ._findings import Findings
from ._machine_rules import MACHINE_RULES, gpu_checks
from ._settings_rules import SETTINGS_RULES, encryption_checks

_RULES: tuple[Callable[[Findings], Iterator[Check]], ...] = (
    *(job_checks, *VERSION_RULES, gpu_checks, *NETWORK_RULES, clock_checks, file_checks),
    *(*MACHINE_RULES, *SETTINGS_RULES, encryption_checks),
)


def diagnose(findings: Findings) -> Diagnosis:
    return Diagnosis(tuple(check for rule in _RULES for check in rule(findings)))
