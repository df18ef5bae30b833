"""A piece of a report: something that shows itself as HTML in a notebook and as text elsewhere."""

from dataclasses import dataclass

from ._assets import asset


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """HTML and plain text that say the same.

    Attributes:
        html: a fragment made by this package, safe to insert.
        text: the same for a terminal.
        kind: names the block in its class attribute, `sparkwright-KIND`.
    """

    html: str
    text: str
    kind: str

    def mimebundle(self) -> dict[str, str]:
        """HTML with the styles it needs, so that it looks right in any page, and the text."""
        style = f"<style>{asset('panel.css')}</style>"
        name = f"sparkwright-block sparkwright-{self.kind}"
        html = f'<section class="{name}">{style}{self.html}</section>'
        return {"text/html": html, "text/plain": self.text}

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        return self.mimebundle()

    def __repr__(self) -> str:
        return self.text
