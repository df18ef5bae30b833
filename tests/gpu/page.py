"""The report as a page that needs no network. Standard library only."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; width: 100% } caption { text-align: left; font-weight: 600 }
th, td { text-align: left; vertical-align: top; padding: .35em .7em; border-bottom: 1px solid #8886 }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.failed, .missed { color: #b3261e; font-weight: 600 } .passed, .met { color: #1b6e3c }
pre { overflow: auto; font-size: 12px }
@media (prefers-color-scheme: dark) { :root { color-scheme: dark; background: #16181c; color: #e6e6e6 }
.failed, .missed { color: #ff8a80 } .passed, .met { color: #7fd99a } }
"""


def page_of(document: dict[str, Any]) -> str:
    """The page of a report as `python -m tests.gpu` writes it."""
    machine, checks = document["machine"], document["checks"]
    gpus = [f"{gpu['name']}, {gpu.get('memory.total', '?')} MiB" for gpu in machine["gpus"]]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    facts = [
        document["note"],
        machine["sentence"],
        f"GPUs: {'; '.join(gpus) or 'none'}. {machine['cores']} cores. {machine['platform']}.",
        f"Python {machine['python']}, {versions}. {document['date']}.",
    ]
    rows = [row for check in checks for row in check["rows"]]
    logs = [
        f"<details><summary>{_text(check['name'])}</summary><pre>{_text(check['log'])}</pre></details>"
        for check in checks
        if check.get("log")
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Sparkwright on a GPU</title><style>{_STYLE}</style></head><body>\n"
        "<h1>Sparkwright on a GPU</h1>\n"
        + "".join(f"<p>{_text(fact)}</p>\n" for fact in facts if fact)
        + _table("Checks", ("Check", "Outcome", "What came of it", "Seconds"), map(_check, checks))
        + _table(
            "Figures",
            ("Figure", "Value", "", "Beside", "Ratio", "Goal"),
            map(_figure, rows),
        )
        + ("<h2>Logs of failed checks</h2>\n" + "\n".join(logs) if logs else "")
        + "</body></html>\n"
    )


def meets(goal: str, ratio: float | None) -> bool | None:
    """Whether a ratio meets a goal such as ">= 0.98"; None if there is no goal or ratio."""
    sign, _, number = goal.partition(" ")
    if ratio is None or sign not in (">=", "<="):
        return None
    return ratio >= float(number) if sign == ">=" else ratio <= float(number)


def _table(title: str, heads: Sequence[str], rows: Iterable[str]) -> str:
    cells = "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = "\n".join(rows) or f'<tr><td colspan="{len(heads)}">none</td></tr>'
    head = f"<caption>{title}</caption><thead><tr>{cells}</tr></thead>"
    return f"<table>{head}<tbody>\n{body}\n</tbody></table>\n"


def _check(check: dict[str, Any]) -> str:
    status = check["status"]
    return (
        f"<tr><td>{_text(check['what'])}</td>"
        f'<td class="{_text(status)}">{_text(status)}</td><td>{_text(check["said"])}</td>'
        f'<td class="number">{check["seconds"]:.1f}</td></tr>'
    )


def _figure(row: dict[str, Any]) -> str:
    goal, ratio = row.get("target") or "", row.get("ratio")
    kind = {True: "met", False: "missed", None: ""}[meets(goal, ratio)]
    numbers = [_number(row["value"]), _text(row["unit"]), _number(row.get("baseline"))]
    value, unit, baseline = numbers
    return (
        f'<tr><td>{_text(row["what"])}</td><td class="number">{value}</td><td>{unit}</td>'
        f'<td class="number">{baseline}</td><td class="number {kind}">{_number(ratio)}</td>'
        f"<td>{_text(goal)}</td></tr>"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
