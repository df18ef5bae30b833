"""All checks, in the order in which they are shown."""

from collections.abc import Callable, Iterator

from ._check import Check
from ._diagnosis import Diagnosis
from ._findings import Findings
from ._job_checks import job_checks
from ._machine_checks import gpu_checks, logind_checks, memory_checks, thread_checks
from ._network_checks import clock_checks, network_checks
from ._settings_checks import settings_checks
from ._storage_checks import cache_checks, file_checks
from ._version_checks import version_checks

_KINDS: tuple[Callable[[Findings], Iterator[Check]], ...] = (
    job_checks,
    version_checks,
    gpu_checks,
    network_checks,
    clock_checks,
    file_checks,
    memory_checks,
    thread_checks,
    logind_checks,
    settings_checks,
    cache_checks,
)


def diagnose(findings: Findings) -> Diagnosis:
    """Judge what was gathered."""
    return Diagnosis(tuple(check for kind in _KINDS for check in kind(findings)))
