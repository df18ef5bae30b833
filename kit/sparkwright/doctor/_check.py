"""One thing that was looked at: where, what was found, and what to do."""

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "warning", "problem", "not checked"]
STATUSES: tuple[Status, ...] = ("problem", "warning", "not checked", "ok")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One row of a diagnosis.

    Attributes:
        name: what was looked at, such as "TensorFlow".
        where: on which machines, such as "executor 2 (worker-b)"; "Spark" for its settings.
        status: "ok"; "warning": training works, but worse than it could; "problem": it will fail,
            or fails as soon as a worker is lost; "not checked".
        found: what was found there.
        remedy: what to do; empty where nothing needs to be done.
    """

    name: str
    where: str
    status: Status
    found: str
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "name": self.name,
            "where": self.where,
            "status": self.status,
            "found": self.found,
            "remedy": self.remedy,
        }
