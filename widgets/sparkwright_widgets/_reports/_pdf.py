"""Print an HTML page as a PDF with Chromium, without network access."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from sparkwright.errors import ConfigurationError, RunTimeoutError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT_S = 120


def pdf_of(html: str, *, timeout_s: float = _TIMEOUT_S) -> bytes:
    """Print an offline HTML page as a PDF."""
    chromium = find_chromium()
    with tempfile.TemporaryDirectory(prefix="sparkwright-pdf-") as folder:
        page, printed = Path(folder) / "report.html", Path(folder) / "report.pdf"
        page.write_text(html, encoding="utf-8")
        command = [
            chromium,
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer",
            "--virtual-time-budget=5000",
            f"--print-to-pdf={printed}",
            # Chromium cannot use its sandbox as root.
            *(["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []),
            page.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise RunTimeoutError(
                f"Chromium must print the report within {timeout_s:g} s. Received: a report of "
                f"{len(html):,} characters. Print the HTML file from a browser instead."
            ) from None
        if not printed.is_file() or not printed.stat().st_size:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise ConfigurationError(
                f"Chromium printed nothing. Received: status {done.returncode}, "
                f"{' '.join(said) or 'no message'}. Print the HTML file from a browser instead."
            )
        return printed.read_bytes()


def find_chromium() -> str:
    """Return the path of Chromium or Chrome."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    raise ConfigurationError(
        "PDF reports need Chromium on the PATH. Received: none of "
        f"{', '.join(_NAMES)}. Install it (Debian, Ubuntu: apt-get install chromium), or print the "
        "HTML file from a browser."
    )
