"""Render a report as one offline HTML file: sections, contents, alternative texts. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime
from html import unescape
from typing import NamedTuple

from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import escaped

_LEAST_CONTENTS = 4  # fewer sections need no table of contents
_PICTURE = re.compile(r"<(?:img|svg|canvas)\b[^>]*>", re.IGNORECASE)
_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.*?)</h\1>", re.IGNORECASE | re.DOTALL)
_ALT = re.compile(r"""\salt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_LABEL = re.compile(r"""\saria-(?:label|labeledby)\s*=\s*["'][^"']+["']""", re.IGNORECASE)
_HIDDEN = re.compile(r"""\saria-hidden\s*=\s*["']true["']""", re.IGNORECASE)
# Placeholder of nbconvert for a missing alternative text.
_NO_TEXT = ("", "no description has been provided for this image")
# Scripts, styles and text areas, where "<img" is not a picture.
_RAW = re.compile(r"<(script|style|textarea)\b.*?</\1>", re.IGNORECASE | re.DOTALL)


class Section(NamedTuple):
    """A section of a report: heading and blocks."""

    title: str
    blocks: Sequence[Block]


_NOTHING_OUTSIDE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:"
_OWN_SCRIPTS = "; script-src 'unsafe-inline' 'unsafe-eval'; media-src data:; worker-src blob:"


def page(*, title: str, line: str, body: str, scripts: bool = False) -> str:
    """Return a complete page whose policy forbids browsers to fetch external resources."""
    policy = _NOTHING_OUTSIDE + _OWN_SCRIPTS * scripts
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{asset('report.css')}</style>\n</head>\n"
        f"<body>\n<header>{line}</header>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def report_page(
    *,
    title: str,
    about: str,
    made_at: datetime,
    opening: str,
    sections: Sequence[Section],
    took: str = "",
) -> str:
    """Return a report as a page: title, opening, contents, and the sections that have blocks."""
    sections = [section for section in sections if section.blocks]
    titles = [escaped(section.title) for section in sections]
    ids = _ids([section.title for section in sections])
    parts = [f"<h1>{escaped(title)}</h1>", f"<style>{asset('panel.css')}</style>", opening]
    if len(sections) >= _LEAST_CONTENTS:
        parts.append(_contents(list(zip(ids, titles, strict=True))))
    for name, heading, section in zip(ids, titles, sections, strict=True):
        blocks = "\n".join(block.inside() for block in section.blocks)
        parts.append(
            f'<section aria-labeledby="{name}"><h2 id="{name}">{heading}</h2>\n{blocks}</section>'
        )
    line = first_line(about, made_at, took)
    return with_alternative_texts(page(title=title, line=line, body="\n".join(parts)))


def first_line(about: str, made_at: datetime, took: str) -> str:
    """Return the header line of a report: subject, date, and duration if it is not empty."""
    ran = f" · ran for {escaped(took)}" if took else ""
    return (
        f"Sparkwright report · {escaped(about)} · "
        f'<time datetime="{made_at.isoformat(timespec="seconds")}">'
        f"{made_at:%d %B %Y, %H:%M}</time>{ran}"
    )


def with_contents(body: str) -> str:
    """Insert links to the second-level headings of nbconvert's HTML before the first of them."""
    found = list(re.finditer(r'<h2 id="([^"]*)">(.*?)</h2>', body, re.DOTALL))
    if len(found) < _LEAST_CONTENTS:
        return body
    headings = [(match[1], _bare(match[2])) for match in found]
    return f"{body[: found[0].start()]}{_contents(headings)}{body[found[0].start() :]}"


def _contents(headings: Sequence[tuple[str, str]]) -> str:
    """Return links to headings, given their ids and texts as HTML."""
    items = "".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in headings)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _bare(html: str) -> str:
    """Return the text of a heading without tags and nbconvert's anchor link."""
    html = re.sub(r'<a class="anchor-link".*?</a>', "", html, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", "", html).strip()


def _ids(titles: Sequence[str]) -> list[str]:
    found: list[str] = []
    for title in titles:
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        found.append(name if name not in found else f"{name}-{len(found)}")
    return found


def pictures_without_text(html: str) -> list[str]:
    """Return the tags of pictures without alternative text."""
    return [match[0] for match in _pictures(html) if not _has_text(match[0])]


def with_alternative_texts(html: str) -> str:
    """Add an alternative text to pictures that have none: their number and section.

    Example:
        >>> with_alternative_texts('<h2>Losses</h2><img src="data:,">')
        '<h2>Losses</h2><img src="data:," alt="Figure 1 of the section Losses">'
    """
    headings = [(match.start(), unescape(_bare(match[2]))) for match in _HEADING.finditer(html)]
    parts: list[str] = []
    end = number = 0
    for match in _pictures(html):
        number += 1
        if _has_text(match[0]):
            continue
        above = [text for start, text in headings if start < match.start() and text]
        text = f"Figure {number}" + (f" of the section {above[-1]}" if above else "")
        parts += [html[end : match.start()], _with_text(match[0], text)]
        end = match.end()
    return "".join([*parts, html[end:]])


def _pictures(html: str) -> list[re.Match[str]]:
    raw = [match.span() for match in _RAW.finditer(html)]
    return [
        match
        for match in _PICTURE.finditer(html)
        if not any(start <= match.start() < stop for start, stop in raw)
    ]


def _has_text(tag: str) -> bool:
    if _LABEL.search(tag) or _HIDDEN.search(tag):
        return True
    if not tag.lower().startswith("<img"):
        return False
    alt = _ALT.search(tag)
    return alt is not None and (alt[1] or alt[2] or "").strip().lower() not in _NO_TEXT


def _with_text(tag: str, text: str) -> str:
    if tag.lower().startswith("<img"):
        tag = _ALT.sub("", tag)
        attributes = f'alt="{escaped(text)}"'
    else:
        attributes = f'role="img" aria-label="{escaped(text)}"'
    ending = "/>" if tag.endswith("/>") else ">"
    return f"{tag[: -len(ending)].rstrip()} {attributes}{ending}"
