"""A page of HTML as a PDF, printed by Chromium; nothing is fetched from the network."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from sparkwright.errors import ConfigurationError, RunTimeoutError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_TIMEOUT_S = 120


def pdf_of(html: str, *, timeout_s: float = _TIMEOUT_S) -> bytes:
    """Print a page that needs no network.

    Args:
        html: the whole page.
        timeout_s: how long Chromium may take; default 120.

    Raises:
        ConfigurationError: if Chromium is not installed, or prints nothing.
        RunTimeoutError: if it takes longer.
    """
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
            # Chromium has no sandbox for the administrator.
            *(["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []),
            page.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise RunTimeoutError(
                f"Chromium took longer than {timeout_s:g} s to print the report. Received: "
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
    """The path of Chromium or Chrome.

    Raises:
        ConfigurationError: if there is none on the PATH.
    """
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    raise ConfigurationError(
        "PDFs are printed by Chromium, which must be on the PATH. Received: none of "
        f"{', '.join(_NAMES)}. Install it (Debian, Ubuntu: apt-get install chromium), or print the "
        "HTML file from a browser."
    )
