"""Check the house style of documents, docstrings, comments, messages and names of tests.

    python .ci/prose.py [FILE ...]      default: all that git tracks

Prints FILE:LINE: PHRASE, and what to write instead; the exit status is 1 if there is any.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

# Phrase -> what to write instead. A phrase stands between word boundaries, in any case.
PHRASES = {
    r"anew|afresh": "again, or restart",
    r"somebody|nobody|anybody|everybody": "name the user, worker or process",
    r"in hand": "current",
    r"by itself|of its own accord": "automatically",
    r"in the midst of": "during",
    r"learnt": "learned",
    r"is told|are told|was told|were told": "receives, or is notified",
    r"hears|is heard|heard of|heard from": "receives",
    r"is deaf": "does not listen",
    r"of chance": "random",
    r"hung up on|hangs up on": "disconnected",
    r"taken for": "predicted as, or mistaken for",
    r"for ever": "forever",
    r"cannot be meant": "is invalid",
    r"at their word": "calibrated",
    r"all the same": "nevertheless",
    r"what there is": "name it",
    r"as good as": "almost",
    r"make up one's mind|makes up its mind": "decide",
    r"simply|obviously|of course": "leave it out",
}
# The same in names of test functions, with spaces for underscores.
NAMES = {
    "who|whoever|nobody|somebody|everybody": "name the user, worker or process",
    "told|says|said|hear|hears|heard": "raises, reports or receives",
    "goes on|go on": "continues",
    "comes back|come back": "reconnects, or round-trips",
    "meant": "invalid",
    "refused|refuses": "rejected, or raises",
    "all right|in hand|of its own|asked for|looked at|given up|left out|alike": "rephrase",
}
_PATTERNS = {re.compile(rf"\b(?:{phrase})\b", re.I): fix for phrase, fix in PHRASES.items()}
_NAMES = {re.compile(rf"\b(?:{phrase})\b"): fix for phrase, fix in NAMES.items()}
_CHECKED = ("README.md", "docs", "kit", "widgets", "notebooks", "binder", "CONTRIBUTING.md")


def main(given: list[str]) -> int:
    """Check the files; the exit status."""
    command = ["git", "ls-files", "--", *(given or (*_CHECKED, "tests"))]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    count = 0
    for name in names:
        path = Path(name)
        if path.suffix not in (".md", ".py") or not path.exists():
            continue
        text = path.read_text()
        if path.parts[0] == "tests":
            lines, patterns = _test_names(text), _NAMES
        elif path.suffix == ".py":
            lines, patterns = _of_python(text), _PATTERNS
        else:
            lines, patterns = _of_markdown(text), _PATTERNS
        for number, line in lines:
            for pattern, fix in patterns.items():
                for found in pattern.finditer(line):
                    print(f"{name}:{number}: {found[0]!r}: {fix}")
                    count += 1
    return 1 if count else 0


def _of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines outside blocks of code."""
    in_fence = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            in_fence = not in_fence
        elif not in_fence and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`", "", line)


def _test_names(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered names of test functions, with spaces for underscores."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*(?:async )?def (test_\w+)", line):
            yield number, found[1].replace("_", " ")


def _of_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of comments and of text with spaces, docstrings included."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], re.sub(r"`[^`]*`", "", token.string)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, re.sub(r"`[^`]*`", "", line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
