"""Alternative texts: every picture of a report has one. Pure."""

import re
from html import unescape

from sparkwright_widgets._format import escaped

_PICTURE = re.compile(r"<(?:img|svg|canvas)\b[^>]*>", re.IGNORECASE)
_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.*?)</h\1>", re.IGNORECASE | re.DOTALL)
_ALT = re.compile(r"""\salt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_LABEL = re.compile(r"""\saria-(?:label|labelledby)\s*=\s*["'][^"']+["']""", re.IGNORECASE)
_HIDDEN = re.compile(r"""\saria-hidden\s*=\s*["']true["']""", re.IGNORECASE)
# What nbconvert writes where a notebook gives no text.
_NO_TEXT = ("", "no description has been provided for this image")
# Text of programs and styles, in which "<img" is no picture.
_RAW = re.compile(r"<(script|style|textarea)\b.*?</\1>", re.IGNORECASE | re.DOTALL)


def pictures_without_text(html: str) -> list[str]:
    """The tags of pictures that say nothing to those who cannot see them."""
    return [match[0] for match in _pictures(html) if not _has_text(match[0])]


def with_alternative_texts(html: str) -> str:
    """Number the pictures without a text of their own, and say to which section they belong.

    Example:
        >>> with_alternative_texts('<h2>Losses</h2><img src="data:,">')
        '<h2>Losses</h2><img src="data:," alt="Figure 1 of the section Losses">'
    """
    headings = [(match.start(), _text(match[2])) for match in _HEADING.finditer(html)]
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


def _text(html: str) -> str:
    html = re.sub(r'<a class="anchor-link".*?</a>', "", html, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", html)).strip()
