"""The checks of a diagnosis, and the diagnosis as a table and JSON."""

import json
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["ok", "warning", "problem", "not checked"]
STATUSES: tuple[Status, ...] = ("problem", "warning", "not checked", "ok")

_WIDTH = 100
_MARKS: dict[Status, str] = {"ok": "OK", "warning": "warning", "problem": "PROBLEM"}
_PLURALS = {"problem": "problems", "warning": "warnings"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One row of a diagnosis.

    Attributes:
        name: name of the check, such as "TensorFlow".
        where: the checked processes, such as "executor 2 (worker-b)"; "Spark" for its settings.
        status: "ok"; "warning": training works, but not optimally; "problem": training fails, or
            fails as soon as a worker is lost; "not checked".
        found: the findings.
        remedy: the recommended change; empty if none is needed.
    """

    name: str
    where: str
    status: Status
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of the doctor.

    `print` it or display it in a notebook: a table with remedies, problems first.

    Attributes:
        checks: one row each, in the order of execution.
    """

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no problems; there may be warnings."""
        return not self.problems

    @property
    def problems(self) -> tuple[Check, ...]:
        """Checks with the status "problem"."""
        return self._with("problem")

    @property
    def warnings(self) -> tuple[Check, ...]:
        """Checks with the status "warning"."""
        return self._with("warning")

    def find(self, name: str) -> tuple[Check, ...]:
        """Return the rows of one check, such as "TensorFlow"; none if it was not made."""
        return tuple(check for check in self.checks if check.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable fields: `ok` and `checks`."""
        return {
            "name": type(self).__name__,
            "ok": self.ok,
            "checks": [asdict(check) for check in self.checks],
        }

    def to_json(self) -> str:
        """Return `to_dict` as indented JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __repr__(self) -> str:
        """Return the table as text, wrapped at 100 characters."""
        rows = self._sorted
        if not rows:
            return self._summary
        name = max(len(check.name) for check in rows)
        lines = [self._summary, ""]
        for check in rows:
            start = f"{_MARKS.get(check.status, check.status):11}  {check.name:{name}}  "
            indent = " " * len(start)
            lines += _wrapped(f"{check.where}: {check.found}", start, indent)
            lines += _wrapped(check.remedy, f"{indent}-> ", f"{indent}   ")
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        # `import sparkwright` imports this module, but the rest of the kit only on first use.
        from sparkwright.evaluation.reports import Report, Table

        rows = [
            (
                _MARKS.get(check.status, check.status),
                check.name,
                check.where,
                check.found,
                check.remedy,
            )
            for check in self._sorted
        ]
        table = Table(
            rows=[("", "Check", "Where", "Found", "What to do"), *rows], text_columns=range(5)
        )
        return Report(title=self._summary, tables=[table] if rows else []).html()

    @property
    def _summary(self) -> str:
        counts = Counter(check.status for check in self.checks)
        parts = [
            f"{counts[status]} {_PLURALS.get(status, status) if counts[status] != 1 else status}"
            for status in STATUSES
            if counts[status]
        ]
        return f"sparkwright doctor: {', '.join(parts) or 'nothing was checked'}"

    @property
    def _sorted(self) -> list[Check]:
        return sorted(self.checks, key=lambda check: STATUSES.index(check.status))

    def _with(self, status: Status) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.status == status)


def _wrapped(text: str, start: str, indent: str) -> list[str]:
    """Return the wrapped lines of a text; none for an empty text."""
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=indent, break_long_words=False
    )
