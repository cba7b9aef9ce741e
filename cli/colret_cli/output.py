"""How numbers, paths and progress look on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TextIO

import click

from colret.errors import printable
from colret.object_storage import is_remote
from colret.wording import count

if TYPE_CHECKING:
    from colret.report import Progress

_REDRAW_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 10.0  # between lines where nothing can be redrawn, as in a log file
_RECENT_SECONDS: Final = 30.0  # that a rate is told of


def show_path(path: str) -> str:
    """Return ``path`` as short as it can be said from the working folder, on one line; an address as it is."""
    if is_remote(path):
        return printable(path)
    relative = os.path.relpath(path)
    return printable(path if relative.startswith("..") or os.getcwd() == os.sep else relative)


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether ``stream`` is a terminal; a standard stream that is closed is None."""
    return stream is not None and stream.isatty()


def show_bytes(n_bytes: float) -> str:
    """Return a byte count as people read it, in powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000 or unit == "GB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    raise AssertionError("unreachable")


class ProgressLine:
    """Pages, pages per second, share of OCR and time left, on stderr: one line redrawn, or lines in a log."""

    def __init__(self) -> None:
        self.last: Progress | None = None  # that was told
        self._redraws = is_terminal(sys.stderr)
        self._started = self._shown = time.monotonic()
        self._recent = deque([(self._started, 0)])  # moments, and pages by then

    def __call__(self, progress: Progress) -> None:
        """Show ``progress``, if it is time to."""
        self.last = progress
        now = time.monotonic()
        if now - self._shown < (_REDRAW_SECONDS if self._redraws else _LINE_SECONDS):
            return
        self._shown = now
        text = _progress_text(progress, now - self._started, self._rate(now, progress.n_pages))
        click.echo(f"\r\x1b[K{text}" if self._redraws else text, err=True, nl=not self._redraws)

    def clear(self) -> None:
        """Take the line away."""
        if self._redraws:
            click.echo("\r\x1b[K", err=True, nl=False)

    def _rate(self, now: float, n_pages: int) -> float:
        """Return the pages a second of late."""
        self._recent.append((now, n_pages))
        while len(self._recent) > 2 and now - self._recent[1][0] > _RECENT_SECONDS:
            self._recent.popleft()
        moment, before = self._recent[0]
        return (n_pages - before) / (now - moment) if now > moment else 0.0


def _progress_text(progress: Progress, seconds: float, rate: float) -> str:
    left = seconds / progress.fraction - seconds if progress.fraction else 0.0
    minutes, rest = divmod(round(left), 60)
    hours, minutes = divmod(minutes, 60)
    eta = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    ocr = f"  {progress.n_ocr / progress.n_pages:.0%} by OCR" if progress.n_ocr else ""
    return (
        f"{count(progress.n_pages, 'page')}  {rate:.1f} pages/s{ocr}  "
        f"{progress.n_documents_read}/{progress.n_documents} documents  {eta} left"
    )
