"""A report as one HTML file that needs no network: sections, contents, styles. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright_widgets._assets import asset
from sparkwright_widgets._format import escaped

_LEAST_CONTENTS = 4  # fewer sections are seen at a glance


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of a report.

    Attributes:
        title: its heading.
        html: what follows; made by this package.
    """

    title: str
    html: str


_NOTHING_OUTSIDE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:"
_OWN_SCRIPTS = "; script-src 'unsafe-inline' 'unsafe-eval'; media-src data:; worker-src blob:"


def page(*, title: str, line: str, body: str, scripts: bool = False) -> str:
    """A whole page, of which browsers fetch nothing from elsewhere, whatever `body` says.

    Args:
        title: of the file, as browsers show it.
        line: HTML of the small line on top.
        body: HTML of the rest.
        scripts: whether those inside `body` may run; default False.
    """
    policy = _NOTHING_OUTSIDE + _OWN_SCRIPTS * scripts
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{asset('report.css')}</style>\n</head>\n"
        f"<body>\n<header>{line}</header>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def report_body(title: str, opening: str, sections: Sequence[Section]) -> str:
    """Title, opening, contents and sections, as the body of a page.

    Args:
        title: the heading of all.
        opening: HTML below it: the verdict.
        sections: in order.
    """
    styles = f"<style>{asset('panel.css')}</style>"
    parts = [f"<h1>{escaped(title)}</h1>", styles, opening]
    ids = _ids([section.title for section in sections])
    if len(sections) >= _LEAST_CONTENTS:
        titles = [escaped(section.title) for section in sections]
        parts.append(_contents(list(zip(ids, titles, strict=True))))
    parts += [
        f'<section aria-labelledby="{name}"><h2 id="{name}">{escaped(section.title)}</h2>\n'
        f"{section.html}</section>"
        for name, section in zip(ids, sections, strict=True)
    ]
    return "\n".join(parts)


def with_contents(body: str) -> str:
    """A body that nbconvert made, with links to its second-level headings before the first."""
    found = list(re.finditer(r'<h2 id="([^"]*)">(.*?)</h2>', body, re.DOTALL))
    if len(found) < _LEAST_CONTENTS:
        return body
    headings = [(match[1], _bare(match[2])) for match in found]
    return f"{body[: found[0].start()]}{_contents(headings)}{body[found[0].start() :]}"


def _contents(headings: Sequence[tuple[str, str]]) -> str:
    """Links to headings, whose ids and texts are HTML already."""
    items = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in headings)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _bare(html: str) -> str:
    """A heading's text: without the link that nbconvert adds, and without tags."""
    html = re.sub(r'<a class="anchor-link".*?</a>', "", html, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", "", html).strip()


def _ids(titles: Sequence[str]) -> list[str]:
    found: list[str] = []
    for title in titles:
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        found.append(name if name not in found else f"{name}-{len(found)}")
    return found
