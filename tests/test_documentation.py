import re
from pathlib import Path

from tests.cases import cases

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(p for d in ("docs", "kit", "widgets", "binder") for p in (ROOT / d).rglob("*.md")),
    ]
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page):
    """Without blocks of code, where brackets are no links."""
    return re.sub(r"(?ms)^```.*?^```", "", page.read_text())


def anchors_of(page):
    """As code hosts make them of headings."""
    headings = re.findall(r"(?m)^#+ (.+)$", text_of(page))
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@cases("page", *PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_have_existing_targets(page):
    missing = []
    for link in _LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            missing.append(link)
    assert missing == []


def test_modules_in_the_engine_map_exist():
    engine = ROOT / "kit" / "sparkwright"
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", (ROOT / "kit" / "README.md").read_text())
    missing = [name for name in named if not any(engine.rglob(name)) and not (ROOT / name).exists()]
    assert named
    assert missing == []
