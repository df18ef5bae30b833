"""The report as a page that needs no network; standard library only."""

import html
from collections.abc import Iterable
from typing import Any

_STYLE = """
:root { color-scheme: light dark } details pre { overflow: auto; font-size: 12px }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; width: 100%; margin: 1.5em 0 }
caption { text-align: left; font-weight: 600 }
th, td { text-align: left; vertical-align: top; padding: .3em .7em; border-bottom: 1px solid #8886 }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.failed, .missed { color: light-dark(#b3261e, #ff8a80); font-weight: 600 }
.passed, .met { color: light-dark(#1b6e3c, #7fd99a) }
"""


def page_of(document: dict[str, Any]) -> str:
    """The page of a report as `python -m tests.gpu` writes it."""
    machine, checks = document["machine"], document["checks"]
    gpus = [f"{gpu['name']}, {gpu.get('memory.total')} MiB" for gpu in machine["gpus"]]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    facts = [
        *(document["note"], machine["sentence"]),
        f"GPUs: {'; '.join(gpus) or 'none'}. {machine['cores']} cores. {machine['platform']}.",
        f"{versions}. {document['date']}.",
    ]
    outcomes = [
        [(c["what"], ""), (c["status"], c["status"]), (c["said"], ""), _number(c["seconds"])]
        for c in checks
    ]
    figures = [_figure(row) for check in checks for row in check["rows"]]
    logs = [
        f"<details><summary>Log of {_text(check['name'])}</summary>"
        f"<pre>{_text(check['log'])}</pre></details>\n"
        for check in checks
        if check.get("log")
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Sparkwright on a GPU</title><style>{_STYLE}</style></head><body>\n"
        "<h1>Sparkwright on a GPU</h1>\n"
        + "".join(f"<p>{_text(fact)}</p>\n" for fact in facts if fact)
        + _table("Checks", ("Check", "Outcome", "What came of it", "Seconds"), outcomes)
        + _table("Figures", ("Figure", "Value", "Unit", "Beside", "Ratio", "Goal"), figures)
        + "".join(logs)
        + "</body></html>\n"
    )


def meets(goal: str, ratio: float | None) -> bool | None:
    """Whether a ratio meets a goal such as ">= 0.98"; None if there is no goal or ratio."""
    sign, _, number = goal.partition(" ")
    if ratio is None or sign not in (">=", "<="):
        return None
    return ratio >= float(number) if sign == ">=" else ratio <= float(number)


def _figure(row: dict[str, Any]) -> list[tuple[str, str]]:
    goal, ratio = row.get("target") or "", row.get("ratio")
    kind = {True: " met", False: " missed", None: ""}[meets(goal, ratio)]
    numbers = [_number(row["value"]), (row["unit"], ""), _number(row.get("baseline"))]
    return [(row["what"], ""), *numbers, _number(ratio, kind), (goal, "")]


def _number(value: float | None, kind: str = "") -> tuple[str, str]:
    return "" if value is None else f"{value:,.{0 if abs(value) >= 1000 else 2}f}", f"number{kind}"


def _table(title: str, heads: Iterable[str], rows: Iterable[list[tuple[str, str]]]) -> str:
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    cells = ("".join(f'<td class="{k}">{_text(text)}</td>' for text, k in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>\n" for row in cells)
    return f"<table><caption>{title}</caption>\n<tr>{head}</tr>\n{body}</table>\n"


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
