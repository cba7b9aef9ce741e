"""How numbers, paths and progress look on a terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from colret.errors import printable

if TYPE_CHECKING:
    from colret.report import Progress

_REDRAW_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 10.0  # between lines where nothing can be redrawn, as in a log file


def show_path(path: str) -> str:
    """Return ``path`` as short as it can be said from the working folder, on one line."""
    relative = os.path.relpath(path)
    return printable(path if relative.startswith("..") or os.getcwd() == os.sep else relative)


def show_bytes(n_bytes: float) -> str:
    """Return a byte count as people read it, in powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000 or unit == "GB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    raise AssertionError("unreachable")


def count(n: int, noun: str) -> str:
    """Return ``n`` with its noun: "1 page", "2 pages"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


class ProgressLine:
    """Pages, pages per second and time left, on stderr: one line redrawn, or lines in a log."""

    def __init__(self) -> None:
        self._redraws = sys.stderr.isatty()
        self._started = self._shown = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Show ``progress``, if it is time to."""
        now = time.monotonic()
        if now - self._shown < (_REDRAW_SECONDS if self._redraws else _LINE_SECONDS):
            return
        self._shown = now
        text = _progress_text(progress, now - self._started)
        click.echo(f"\r\x1b[K{text}" if self._redraws else text, err=True, nl=not self._redraws)

    def clear(self) -> None:
        """Take the line away."""
        if self._redraws:
            click.echo("\r\x1b[K", err=True, nl=False)


def _progress_text(progress: Progress, seconds: float) -> str:
    left = seconds / progress.fraction - seconds if progress.fraction else 0.0
    minutes, rest = divmod(round(left), 60)
    hours, minutes = divmod(minutes, 60)
    eta = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    rate = progress.n_pages / seconds if seconds else 0.0
    return (
        f"{count(progress.n_pages, 'page')}  {rate:.1f} pages/s  "
        f"{progress.n_documents_read}/{progress.n_documents} documents  {eta} left"
    )
