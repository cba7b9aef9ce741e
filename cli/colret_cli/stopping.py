"""Ctrl-C and SIGTERM end a long command within 2 seconds, with one line, whatever it is doing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import click

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_PATIENCE: Final = 1.5  # seconds for the main thread to notice


@contextmanager
def stoppable(last_words: Callable[[], str | None]) -> Iterator[None]:
    """End the process with 128 and the signal's number, as a shell would say it, when it is told to stop.

    The main thread sees a KeyboardInterrupt. Where it cannot, as in the middle of somebody else's
    compiled code, a thread ends the process all the same; so nothing inside may need an orderly
    end. Threads that are still busy are not waited for.

    Args:
        last_words: The line to end with, asked for at that moment; None ends quietly, as done.
    """
    ending = _Ending(last_words)
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:  # whoever started this wants it to run on
            signal.signal(number, ending.interrupt)
    previous_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=ending.insist, args=(reader,), daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        ending.now()
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(writer)


class _Ending:
    """The end of the process, from whichever thread comes to it first."""

    def __init__(self, last_words: Callable[[], str | None]) -> None:
        self._last_words = last_words
        self._number = signal.SIGINT
        self._begun = threading.Lock()

    def interrupt(self, number: int, frame: Any) -> None:
        """Take a signal in the main thread."""
        self._number = signal.Signals(number)
        if not self._begun.locked():  # told twice
            raise KeyboardInterrupt

    def insist(self, reader: int) -> None:
        """Wait for a signal, which wakes this thread whatever the main one is in, and let it have no more than due."""
        while number := os.read(reader, 1):
            if number[0] in _SIGNALS:
                self._number = signal.Signals(number[0])
                time.sleep(_PATIENCE)
                self.now()
        os.close(reader)

    def now(self) -> NoReturn:
        """Say the last words and end, without waiting for anything."""
        self._begun.acquire()  # never released: whoever comes second waits for the end
        words = self._last_words()
        with contextlib.suppress(OSError, ValueError):  # nobody may be there to read
            if words:
                click.echo(f"colret: {words}", err=True)
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(128 + self._number if words else 0)
