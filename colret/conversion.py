"""Office and HTML documents as PDF, by LibreOffice: a program of its own that may hang, crash or be missing.

What it is given is a sanitized copy (see ``sanitizing``) under a plain name, in a folder that
is deleted afterwards. Its settings keep macros from running and links from being followed, and
send what would still go to the network to a port where nobody answers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from colret.documents import display_path
from colret.errors import DocumentError, Reason
from colret.sanitizing import sanitized
from colret.scratch import scratch_folder

_PLACES: Final = (
    "/Applications/LibreOffice.app/Contents/MacOS/soffice",
    "/usr/lib/libreoffice/program/soffice",
    "/opt/libreoffice/program/soffice",
    r"C:\Program Files\LibreOffice\program\soffice.com",
    r"C:\Program Files (x86)\LibreOffice\program\soffice.com",
)
_PREFIX = "colret-office-"
_REMEDY = "open it in LibreOffice and save it as PDF"

# Read as Writer/Web, the default for HTML, the first paragraph is lost.
_OPTIONS: Final = {".html": ("--infilter=HTML (StarWriter)",)}

_SETTINGS: Final = (
    ("Office.Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("Office.Common/Security/Scripting", "DisableActiveContent", "true"),
    ("Office.Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Office.Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("Office.Java/VirtualMachine", "Enable", "false"),
    ("Office.Writer/Content/Update", "Link", "0"),  # never
    ("Inet/Settings", "ooInetProxyType", "2"),  # as given here
    ("Inet/Settings", "ooInetHTTPProxyName", "127.0.0.1"),
    ("Inet/Settings", "ooInetHTTPProxyPort", "9"),  # discard: nobody answers
    ("Inet/Settings", "ooInetHTTPSProxyName", "127.0.0.1"),
    ("Inet/Settings", "ooInetHTTPSProxyPort", "9"),
    ("Inet/Settings", "ooInetFTPProxyName", "127.0.0.1"),
    ("Inet/Settings", "ooInetFTPProxyPort", "9"),
    ("Inet/Settings", "ooInetNoProxy", ""),
    ("Setup/L10N", "ooSetupSystemLocale", "en-US"),  # it decides the size of pages without one
)

_one_at_a_time = threading.Lock()  # two LibreOffices on one profile would be one


def libreoffice() -> str | None:
    """Return the path of LibreOffice's program, or None: COLRET_SOFFICE, the PATH, or where it is usually put."""
    chosen = os.environ.get("COLRET_SOFFICE")
    if chosen:
        return shutil.which(chosen)
    found = (shutil.which(name) for name in ("soffice", "libreoffice", *_PLACES))
    return next((path for path in found if path), None)


@contextmanager
def converted(path: Path, *, seconds: float) -> Iterator[Path]:
    """Give a PDF of the Office or HTML document at ``path``, which is deleted afterwards.

    Args:
        path: The document.
        seconds: That LibreOffice may take before it is killed with all its processes.

    Raises:
        DocumentError: LibreOffice is missing (``needs_libreoffice``), took too long
            (``render_timeout``) or made no PDF (``conversion_failed``), or the document is
            refused: see ``sanitized``.
    """
    program = libreoffice()
    if program is None:
        problem = "is read through LibreOffice, which is not installed"
        raise _failure(path, problem, "install LibreOffice, or save it as PDF", "needs_libreoffice")
    with tempfile.TemporaryDirectory(prefix="document-", dir=scratch_folder(_PREFIX)) as name:
        folder = Path(name)
        document = sanitized(path, folder)
        with _one_at_a_time:
            said = _run(program, document, path, seconds)
        pdf = document.with_suffix(".pdf")
        if not pdf.exists():
            _discard_profile()
            raise _failure(path, f"LibreOffice made no PDF of it ({said or 'it says nothing'})", _REMEDY)
        yield pdf


def _run(program: str, document: Path, path: Path, seconds: float) -> str:
    """Let LibreOffice write the PDF beside ``document``; return the last line that it says."""
    folder = document.parent
    command = [
        program,
        f"-env:UserInstallation={_seeded_profile().as_uri()}",
        *("--headless", "--norestore", "--nologo", "--nolockcheck", "--nodefault"),
        *_OPTIONS.get(document.suffix, ()),
        *("--convert-to", "pdf", "--outdir", str(folder), str(document)),
    ]
    with (folder / "output").open("w+b") as output:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, env=_environment(folder)
            )
        except OSError as error:
            raise _failure(path, f"LibreOffice does not start ({error.strerror})", "reinstall it") from error
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            problem = f"LibreOffice took longer than {seconds:g} s to convert it"
            raise _failure(path, problem, _REMEDY, "render_timeout") from error
        finally:
            if process.poll() is None:
                _kill(process)
                _discard_profile()
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it started: no session of its own, so that its owner's death takes them too."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for each in family:
        with contextlib.suppress(psutil.Error):
            each.kill()
    process.wait()


def _environment(folder: Path) -> dict[str, str]:
    """Return LibreOffice's environment: a home that is deleted, and no display or session to talk to."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "DBUS_", "LC_")) and name not in ("DISPLAY", "WAYLAND_DISPLAY", "LANGUAGE")
    }
    home = str(folder)
    return kept | {"HOME": home, "TMPDIR": home, "TMP": home, "TEMP": home, "LANG": "C.UTF-8"}


def _profile() -> Path:
    return scratch_folder(_PREFIX) / "profile"


def _discard_profile() -> None:
    """Delete the profile: it may be what is wrong, or hold the lock of a process that was killed."""
    shutil.rmtree(_profile(), ignore_errors=True)


def _seeded_profile() -> Path:
    """Return the profile of this process, with its settings: kept between documents, for the first start is slow."""
    profile = _profile()
    settings = profile / "user" / "registrymodifications.xcu"
    if not settings.exists():
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(_settings_file(), encoding="utf-8")
    return profile


def _settings_file() -> str:
    items = "\n".join(
        f'<item oor:path="/org.openoffice.{group}"><prop oor:name="{name}" oor:op="fuse">'
        f"<value>{value}</value></prop></item>"
        for group, name, value in _SETTINGS
    )
    spaces = 'xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema"'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<oor:items {spaces}>\n{items}\n</oor:items>\n'


def _failure(path: Path, problem: str, remedy: str, reason: Reason = "conversion_failed") -> DocumentError:
    return DocumentError(display_path(path), problem, remedy, reason=reason)
