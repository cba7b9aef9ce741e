"""colret on a real terminal: a pseudo-terminal of the operating system, driven and read by a test."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from types import TracebackType
from typing import Self

from tests.processes import environment

PATIENCE = 120  # seconds, for the slowest machine
UNHEARD = 10  # seconds without a sign, after which a person presses Ctrl-C again
CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A run of colret whose input and output are a terminal; use it in ``with``.

    Args:
        arguments: Of colret.
        columns: Width of the terminal.
        variables: Of the environment, besides those there are.
    """

    def __init__(self, arguments: list[str], columns: int = 80, **variables: str) -> None:
        self.seen = ""
        self.code: int | None = None
        known = {name: value for name, value in environment().items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        self._pid, self._fd = pty.fork()
        if not self._pid:
            command = [sys.executable, "-m", "colret_cli", *arguments]
            os.execve(sys.executable, command, known | {"TERM": "xterm-256color"} | variables)
        self.resize(columns)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.code is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    def resize(self, columns: int) -> None:
        """Give the terminal another width, which the program is told."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def type(self, text: str) -> None:
        """Type ``text``, in which control characters are keys."""
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until something is shown.

        Once is not always enough: Python's ``input`` hears of a signal only while it waits for a key,
        not while readline works on one.
        """
        for _ in range(PATIENCE // UNHEARD):
            self.type(CTRL_C)
            if self._is_shown(UNHEARD):
                return
        raise AssertionError(f"nothing is shown after Ctrl-C: {self.seen!r}")

    def until(self, pattern: str) -> str:
        """Wait until what was shown since the last call has ``pattern``, and return it up to there."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"{pattern!r} is not shown: {self.seen!r}")
        shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return shown

    def end(self) -> str:
        """Wait until the program ends, and return what it showed since the last ``until``."""
        while self._read():
            pass
        _, status = os.waitpid(self._pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.seen

    def _is_shown(self, seconds: float) -> bool:
        return bool(select.select([self._fd], [], [], seconds)[0])

    def _read(self) -> bool:
        if not self._is_shown(PATIENCE):
            raise AssertionError(f"nothing more is shown: {self.seen!r}")
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # as Linux says that nobody writes any more
            return False
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


def on_a_terminal(arguments: list[str], columns: int = 80, **variables: str) -> str:
    """Return what colret shows on a terminal."""
    with Terminal(arguments, columns, **variables) as terminal:
        shown = terminal.end()
        assert terminal.code == 0, shown
        return shown
