"""Opens a document at a page in a program of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from colret.errors import ColretError, printable

if TYPE_CHECKING:
    from colret import Hit

_VIEWERS: Final[dict[str, Callable[[str, int], list[str]]]] = {
    "evince": lambda path, page: [f"--page-index={page}", path],
    "okular": lambda path, page: ["--page", str(page), path],
    "zathura": lambda path, page: [f"--page={page}", path],
    "atril": lambda path, page: [f"--page-index={page}", path],
    "xreader": lambda path, page: [f"--page-index={page}", path],
    "qpdfview": lambda path, page: [f"{path}#{page}"],
    "sioyek": lambda path, page: ["--page", str(page), path],
    "mupdf": lambda path, page: [path, str(page)],
}
"""Programs that take a page to open a PDF at, and how; the first that is there is taken."""

_PATIENCE: Final = 5.0  # seconds


def open_hit(hit: Hit) -> None:
    """Open a hit's document at its page, as ``open_at`` does."""
    from colret.places import place_of

    place = place_of(hit.file)
    if not isinstance(place, Path):
        raise ColretError(place, "no program opens it there", f"see it with: colret show '{place}#{hit.page}'")
    open_at(place, hit.page)


def open_at(path: Path, page: int) -> None:
    """Open ``path`` at ``page`` (from 1); where the page cannot be told to the program, say it on stderr.

    Raises:
        ColretError: If there is no program, or it cannot be started.
    """
    name = printable(path.name)
    if not path.exists():
        raise ColretError(name, "no such file any more", "ingest its folder again")
    viewer = next(filter(shutil.which, _VIEWERS), None) if path.suffix.lower() == ".pdf" else None
    try:
        if viewer is not None:
            _start([viewer, *_VIEWERS[viewer](str(path), page)])
            return
        _start_default(path)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ColretError(name, "nothing here opens it", f"open it yourself, at page {page}") from error
    click.echo(f"colret: {name} is opened at its beginning: go to page {page}", err=True)


def _start_default(path: Path) -> None:
    """Have the system open ``path``; programs that do so end at once, with 0 if they could."""
    if sys.platform == "win32":
        os.startfile(path)
        return
    process = _start(["open" if sys.platform == "darwin" else "xdg-open", str(path)])
    with contextlib.suppress(subprocess.TimeoutExpired):
        if process.wait(_PATIENCE):
            raise subprocess.CalledProcessError(process.returncode, process.args)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    threading.Thread(target=process.wait, daemon=True).start()  # it outlives this process, as a rule
    return process
